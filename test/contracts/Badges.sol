// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {ERC721} from "@openzeppelin/contracts/token/ERC721/ERC721.sol";

/// An OpenZeppelin ERC-721 with ERC-5192 (tokens that may be locked) and ERC-7572 (a document about the collection).
contract Badges is ERC721 {
    event Locked(uint256 tokenId);
    event Unlocked(uint256 tokenId);
    event ContractURIUpdated();

    string public contractURI;
    mapping(uint256 => bool) private _locked;

    constructor(string memory name_, string memory symbol_) ERC721(name_, symbol_) {}

    function mint(address to, uint256 id) external {
        _mint(to, id);
    }

    function burn(uint256 id) external {
        _burn(id);
    }

    function setContractURI(string calldata uri) external {
        contractURI = uri;
        emit ContractURIUpdated();
    }

    function setLocked(uint256 id, bool isLocked) external {
        _locked[id] = isLocked;
        if (isLocked) emit Locked(id);
        else emit Unlocked(id);
    }

    function locked(uint256 id) external view returns (bool) {
        _requireOwned(id);
        return _locked[id];
    }

    function supportsInterface(bytes4 id) public view virtual override returns (bool) {
        return id == 0xb45a3c0e || super.supportsInterface(id);
    }
}

/// The same contract, which doesn't claim ERC-5192.
contract UnclaimedBadges is Badges {
    constructor() Badges("Unclaimed", "UNC") {}

    function supportsInterface(bytes4 id) public view override returns (bool) {
        return id != 0xb45a3c0e && super.supportsInterface(id);
    }
}
