// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {ERC1967Utils} from "@openzeppelin/contracts/proxy/ERC1967/ERC1967Utils.sol";
import {ERC1155} from "@openzeppelin/contracts/token/ERC1155/ERC1155.sol";
import {ERC721} from "@openzeppelin/contracts/token/ERC721/ERC721.sol";

/// An ERC-721 whose name and symbol any account sets, in silence or with ERC-7572's announcement. Without proxy or behind one.
contract RenamedNft is ERC721 {
    event ContractURIUpdated();

    bytes private name_;
    bytes private symbol_;
    bool private isMute;
    bytes public contractURI;
    mapping(uint256 id => bytes) private uris;

    constructor() ERC721("", "") {}

    function setContractURI(bytes calldata uri) external {
        contractURI = uri;
    }

    function mintWithURI(address to, uint256 id, bytes calldata uri) external {
        uris[id] = uri;
        _mint(to, id);
    }

    function tokenURI(uint256 id) public view override returns (string memory) {
        return string(uris[id]);
    }

    function mint(address to, uint256 id) external {
        _mint(to, id);
    }

    function rename(bytes calldata newName, bytes calldata newSymbol, bool isAnnounced) external {
        (name_, symbol_) = (newName, newSymbol);
        if (isAnnounced) emit ContractURIUpdated();
    }

    /// From now on name and symbol revert, or no longer.
    function mute(bool isMute_) external {
        isMute = isMute_;
        emit ContractURIUpdated();
    }

    function upgrade(address implementation) external {
        ERC1967Utils.upgradeToAndCall(implementation, "");
    }

    function upgradeBeacon(address beacon) external {
        ERC1967Utils.upgradeBeaconToAndCall(beacon, "");
    }

    function name() public view override returns (string memory) {
        require(!isMute, "mute");
        return string(name_);
    }

    function symbol() public view override returns (string memory) {
        require(!isMute, "mute");
        return string(symbol_);
    }
}

/// Another logic, with a name of its own.
contract OtherLogic is ERC721 {
    constructor() ERC721("", "") {}

    function mint(address to, uint256 id) external {
        _mint(to, id);
    }

    function upgrade(address implementation) external {
        ERC1967Utils.upgradeToAndCall(implementation, "");
    }

    function name() public pure override returns (string memory) {
        return "Other";
    }

    function symbol() public pure override returns (string memory) {
        return "OTH";
    }
}

/// A logic from before the standard: its events index nothing, and it claims no interface.
contract EarlyLogic {
    event Transfer(address from, address to, uint256 tokenId);

    mapping(uint256 id => address) public ownerOf;

    function mint(address to, uint256 id) external {
        ownerOf[id] = to;
        emit Transfer(address(0), to, id);
    }

    function upgrade(address implementation) external {
        ERC1967Utils.upgradeToAndCall(implementation, "");
    }

    function name() external pure returns (string memory) {
        return "Early";
    }
}

/// Its successor mints amounts by ERC-1155, and keeps the early tokens.
contract AmountsLogic is ERC1155 {
    constructor() ERC1155("") {}

    function mintAmount(address to, uint256 id, uint256 amount) external {
        _mint(to, id, amount, "");
    }

    function name() external pure returns (string memory) {
        return "Amounts";
    }
}

/// A successor that emits ERC-721's events and claims nothing.
contract SilentLogic {
    event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);

    mapping(uint256 id => address) public ownerOf;

    function mint(address to, uint256 id) external {
        ownerOf[id] = to;
        emit Transfer(address(0), to, id);
    }
}
