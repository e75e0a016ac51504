// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {ERC721} from "@openzeppelin/contracts/token/ERC721/ERC721.sol";

/// An ordinary OpenZeppelin ERC-721 in which any account may mint and burn.
contract PlainNft is ERC721 {
    string private base;
    string private suffix;

    constructor(string memory name_, string memory symbol_) ERC721(name_, symbol_) {}

    function mint(address to, uint256 id) external {
        _mint(to, id);
    }

    /// Emits one Transfer for each of `count` ids from `firstId` on.
    function mintMany(address to, uint256 firstId, uint256 count) external {
        for (uint256 i = 0; i < count; i++) _mint(to, firstId + i);
    }

    function burn(uint256 id) external {
        _burn(id);
    }

    /// Moves a token without an approval, so that a test needs none.
    function move(address from, address to, uint256 id) external {
        _transfer(from, to, id);
    }

    /// Sets the token URIs to `base`, the id in decimal, `suffix`. Without a base the tokens have no URI.
    function setBaseURI(string calldata base_, string calldata suffix_) external {
        base = base_;
        suffix = suffix_;
    }

    function tokenURI(uint256 id) public view virtual override returns (string memory) {
        string memory start = super.tokenURI(id);
        return bytes(start).length == 0 ? "" : string.concat(start, suffix);
    }

    function _baseURI() internal view override returns (string memory) {
        return base;
    }
}
