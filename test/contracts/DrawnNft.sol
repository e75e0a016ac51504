// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {Base64} from "@openzeppelin/contracts/utils/Base64.sol";
import {Strings} from "@openzeppelin/contracts/utils/Strings.sol";
import {PlainNft} from "./PlainNft.sol";

/// An ERC-721 that draws a picture for each token: one of eight colours, three shapes and four sizes.
contract DrawnNft is PlainNft {
    using Strings for uint256;

    bytes private constant COLOURS = hex"c2410c15803d1d4ed8a21caf0f766eb4530964748be11d48";

    constructor(string memory name_, string memory symbol_) PlainNft(name_, symbol_) {}

    function tokenURI(uint256 id) public view override returns (string memory) {
        _requireOwned(id);
        string memory image = string.concat("data:image/svg+xml;base64,", Base64.encode(bytes(drawing(id))));
        string memory traits = string.concat(
            '[{"trait_type":"Colour","value":"', colour(id),
            '"},{"trait_type":"Shape","value":"', shape(id),
            '"},{"trait_type":"Size","value":', size(id).toString(), "}]"
        );
        bytes memory json = abi.encodePacked(
            '{"name":"Edition ', id.toString(),
            '","description":"Drawn by its contract on the local chain","image":"', image,
            '","attributes":', traits, "}"
        );
        return string.concat("data:application/json;base64,", Base64.encode(json));
    }

    function drawing(uint256 id) private pure returns (string memory) {
        string memory at = (32 - size(id)).toString();
        string memory side = (2 * size(id)).toString();
        string memory body = id % 3 == 0
            ? string.concat('<circle cx="32" cy="32" r="', size(id).toString(), '" fill="white"/>')
            : string.concat(
                '<rect x="', at, '" y="', at, '" width="', side, '" height="', side, '" fill="white"',
                id % 3 == 1 ? "/>" : ' transform="rotate(45 32 32)"/>'
            );
        return string.concat(
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><rect width="64" height="64" fill="',
            colour(id), '"/>', body, "</svg>"
        );
    }

    function colour(uint256 id) private pure returns (string memory) {
        uint256 at = (id % 8) * 3;
        uint256 rgb = (uint256(uint8(COLOURS[at])) << 16) | (uint256(uint8(COLOURS[at + 1])) << 8) | uint8(COLOURS[at + 2]);
        bytes memory hexadecimal = bytes(rgb.toHexString(3));
        // "0x" and six digits become "#" and six digits.
        bytes memory text = new bytes(7);
        text[0] = "#";
        for (uint256 i = 1; i < 7; i++) text[i] = hexadecimal[i + 1];
        return string(text);
    }

    function shape(uint256 id) private pure returns (string memory) {
        return id % 3 == 0 ? "Circle" : id % 3 == 1 ? "Square" : "Diamond";
    }

    function size(uint256 id) private pure returns (uint256) {
        return 10 + 3 * ((id / 3) % 4);
    }
}
