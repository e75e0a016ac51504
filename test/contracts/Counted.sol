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

/// Fills the bloom of a block.
contract NoiseEmitter {
    function emitNoise(uint256 seed, uint256 count) external {
        for (uint256 i = 0; i < count; i++) {
            bytes32 a = keccak256(abi.encode(seed, i, 1));
            bytes32 b = keccak256(abi.encode(seed, i, 2));
            bytes32 c = keccak256(abi.encode(seed, i, 3));
            bytes32 d = keccak256(abi.encode(seed, i, 4));
            assembly {
                log4(0, 0, a, b, c, d)
            }
        }
    }
}
