// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// A collection older than ERC-721. Its events have no indexed parameters, and it denies the standard's interface id.
contract Kitties {
    string public constant name = "Kitties";
    string public constant symbol = "KIT";

    event Transfer(address from, address to, uint256 tokenId);
    event Approval(address owner, address approved, uint256 tokenId);
    event Birth(address owner, uint256 kittyId, uint256 matronId, uint256 sireId, uint256 genes);

    uint256 public totalSupply;
    mapping(uint256 => address) private owners;
    mapping(address => uint256) public balanceOf;

    /// Gives ids in order from 1. A birth emits a Birth and a Transfer from the zero address.
    function breed(address to, uint256 count) external {
        for (uint256 i = 0; i < count; i++) {
            uint256 id = ++totalSupply;
            emit Birth(to, id, 0, 0, uint256(keccak256(abi.encode(id))));
            move(address(0), to, id);
        }
    }

    function transfer(address to, uint256 id) external {
        require(owners[id] == msg.sender, "not the owner");
        move(msg.sender, to, id);
    }

    function ownerOf(uint256 id) external view returns (address owner) {
        owner = owners[id];
        require(owner != address(0), "no such kitty");
    }

    /// Supports ERC-165 itself and the draft of ERC-721 that the contract follows, and nothing else.
    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0x9a20483d;
    }

    function move(address from, address to, uint256 id) private {
        if (from != address(0)) balanceOf[from]--;
        balanceOf[to]++;
        owners[id] = to;
        emit Transfer(from, to, id);
    }
}
