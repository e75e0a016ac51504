// SPDX-License-Identifier: MIT
pragma solidity ^0.8.24;

import {ERC1155} from "@openzeppelin/contracts/token/ERC1155/ERC1155.sol";
import {ERC1155Supply} from "@openzeppelin/contracts/token/ERC1155/extensions/ERC1155Supply.sol";
import {PlainNft} from "./PlainNft.sol";

/// An ERC-721 that counts its tokens.
contract CountedNft is PlainNft {
    uint256 public totalSupply;

    constructor(string memory name_, string memory symbol_) PlainNft(name_, symbol_) {}

    function _update(address to, uint256 id, address auth) internal override returns (address from) {
        from = super._update(to, id, auth);
        if (from == address(0)) totalSupply++;
        if (to == address(0)) totalSupply--;
    }
}

/// An ERC-1155 that counts nothing.
contract UncountedAmounts is ERC1155 {
    constructor() ERC1155("") {}

    function mint(address to, uint256 id, uint256 amount) external {
        _mint(to, id, amount, "");
    }

    function move(address from, address to, uint256 id, uint256 amount) external {
        _safeTransferFrom(from, to, id, amount, "");
    }
}

/// An ERC-1155 that counts the units of each id, and of all.
contract CountedAmounts is ERC1155Supply {
    constructor() ERC1155("") {}

    function mint(address to, uint256 id, uint256 amount) external {
        _mint(to, id, amount, "");
    }

    function move(address from, address to, uint256 id, uint256 amount) external {
        _safeTransferFrom(from, to, id, amount, "");
    }
}
