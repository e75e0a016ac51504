// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {ERC721A} from "erc721a/contracts/ERC721A.sol";

/// An ERC721A collection. Its ids are sequential from 0, and one cheap mint creates many of them.
contract BatchNft is ERC721A {
    string private base;
    string private suffix;

    constructor(string memory name_, string memory symbol_) ERC721A(name_, symbol_) {}

    function mint(address to, uint256 quantity) external {
        _mint(to, quantity);
    }

    function burn(uint256 id) external {
        _burn(id);
    }

    /// Sets the token URIs to `base`, the id in decimal, `suffix`. Without a base the tokens have no URI.
    function setBaseURI(string calldata base_, string calldata suffix_) external {
        base = base_;
        suffix = suffix_;
    }

    function tokenURI(uint256 id) public view override returns (string memory) {
        string memory start = super.tokenURI(id);
        return bytes(start).length == 0 ? "" : string.concat(start, suffix);
    }

    function _baseURI() internal view override returns (string memory) {
        return base;
    }
}

/// An ERC721A collection. Its constructor announces the first tokens only by ERC-2309's ConsecutiveTransfer.
contract ConsecutiveNft is ERC721A {
    constructor(string memory name_, string memory symbol_, address to, uint256 quantity) ERC721A(name_, symbol_) {
        _mintERC2309(to, quantity);
    }

    function mint(address to, uint256 quantity) external {
        _mint(to, quantity);
    }

    function burn(uint256 id) external {
        _burn(id);
    }
}
