// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {Ownership} from "./OddNfts.sol";

/// An ERC-721 that can be told to say nothing of what it does.
contract SilentNft is Ownership {
    event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);

    string public constant name = "Silent";
    string public constant symbol = "SIL";
    bool public silent;

    function setSilent(bool to) external {
        silent = to;
    }

    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0x80ac58cd;
    }

    function announce(address from, address to, uint256 id) internal virtual override {
        if (!silent) emit Transfer(from, to, id);
    }
}

/// Lists its tokens itself, in the order of their mints.
contract EnumeratedNft is SilentNft {
    uint256[] private all;

    function totalSupply() external view returns (uint256) {
        return all.length;
    }

    function tokenByIndex(uint256 index) external view returns (uint256) {
        return all[index];
    }

    function announce(address from, address to, uint256 id) internal override {
        if (from == address(0)) all.push(id);
        super.announce(from, to, id);
    }
}

/// Its supply counts what was ever minted and its numbering, not what there is; what is burned still lies in its list.
contract CountingNft is SilentNft {
    uint256 public totalSupply = 1000;

    function tokenByIndex(uint256 index) external pure returns (uint256) {
        return index;
    }

    function announce(address from, address to, uint256 id) internal override {
        if (from == address(0)) totalSupply++;
        super.announce(from, to, id);
    }
}

/// Whatever was burned, or was retired before it was minted, is the dead address's.
contract RetiringNft is SilentNft {
    address private constant DEAD = 0x000000000000000000000000000000000000dEaD;

    uint256 public constant totalSupply = 10000;

    function ownerOf(uint256 id) public view override returns (address) {
        return owners[id] == address(0) && id < totalSupply ? DEAD : super.ownerOf(id);
    }
}

/// As SuSquares: all tokens are there from the start, and the contract's own until they are bought.
contract SquareNft is SilentNft {
    uint256 public constant totalSupply = 10000;

    function ownerOf(uint256 id) public view override returns (address) {
        return owners[id] == address(0) && id < totalSupply ? address(this) : super.ownerOf(id);
    }

    function tokenByIndex(uint256 index) external pure returns (uint256) {
        return index;
    }
}

/// Each account's one token, numbered by its address: whatever number is asked about has an owner.
contract AccountNft is SilentNft {
    function ownerOf(uint256 id) public pure override returns (address) {
        return address(uint160(id));
    }
}

/// Each number has an owner, the deployer's, until it is minted: what could be minted and what was are alike.
contract LazyNft is SilentNft {
    address private immutable deployer = msg.sender;

    function ownerOf(uint256 id) public view override returns (address) {
        return owners[id] == address(0) ? deployer : owners[id];
    }
}

/// Remembers the last owner of what was burned.
contract GhostNft is SilentNft {
    mapping(uint256 => address) private last;

    function ownerOf(uint256 id) public view override returns (address) {
        return last[id];
    }

    function announce(address from, address to, uint256 id) internal override {
        if (to != address(0)) last[id] = to;
        super.announce(from, to, id);
    }
}
