// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {ERC1155} from "@openzeppelin/contracts/token/ERC1155/ERC1155.sol";
import {ERC1155Supply} from "@openzeppelin/contracts/token/ERC1155/extensions/ERC1155Supply.sol";

/// An OpenZeppelin ERC-1155 with supplies. Its batches may repeat an id and may contain amounts of zero.
contract MultiToken is ERC1155Supply {
    string public name;
    string public symbol;

    constructor(string memory name_, string memory symbol_, string memory uri_) ERC1155(uri_) {
        name = name_;
        symbol = symbol_;
    }

    function mint(address to, uint256 id, uint256 amount) external {
        _mint(to, id, amount, "");
    }

    function mintBatch(address to, uint256[] calldata ids, uint256[] calldata amounts) external {
        _mintBatch(to, ids, amounts, "");
    }

    function burn(address from, uint256 id, uint256 amount) external {
        _burn(from, id, amount);
    }

    function burnBatch(address from, uint256[] calldata ids, uint256[] calldata amounts) external {
        _burnBatch(from, ids, amounts);
    }

    /// Announces the URI of one id. EIP-1155 requires this event when a URI changes.
    function announceURI(string calldata value, uint256 id) external {
        emit URI(value, id);
    }

    function setURI(string calldata value) external {
        _setURI(value);
    }
}
