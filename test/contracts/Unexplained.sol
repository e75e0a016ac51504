// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {Ownership} from "./OddNfts.sol";

/// An ERC-721 that can be switched to emit no events.
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

/// Enumerates its tokens in the order of their mints.
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

/// Supply and enumeration count all tokens ever minted. A burned token stays in the enumeration.
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

/// The dead address owns every token that was burned, or that was retired before its mint.
contract RetiringNft is SilentNft {
    address private constant DEAD = 0x000000000000000000000000000000000000dEaD;

    uint256 public constant totalSupply = 10000;

    function ownerOf(uint256 id) public view override returns (address) {
        return owners[id] == address(0) && id < totalSupply ? DEAD : super.ownerOf(id);
    }
}

/// SuSquares: all tokens exist from the start, and the contract owns them until they are bought.
contract SquareNft is SilentNft {
    uint256 public constant totalSupply = 10000;

    function ownerOf(uint256 id) public view override returns (address) {
        return owners[id] == address(0) && id < totalSupply ? address(this) : super.ownerOf(id);
    }

    function tokenByIndex(uint256 index) external pure returns (uint256) {
        return index;
    }
}

/// Each account has one token, with its address as the id. So every id has an owner.
contract AccountNft is SilentNft {
    function ownerOf(uint256 id) public pure override returns (address) {
        return address(uint160(id));
    }
}

/// The deployer owns each id until it is minted. So minted and unminted ids look the same.
contract LazyNft is SilentNft {
    address private immutable deployer = msg.sender;

    function ownerOf(uint256 id) public view override returns (address) {
        return owners[id] == address(0) ? deployer : owners[id];
    }
}

/// Still returns the last owner of a burned token.
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
