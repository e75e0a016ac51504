// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// An ERC-721 that can destroy itself. It is compiled for a fork before Cancun, because later forks keep the code.
contract Destructible {
    event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);

    string public constant name = "Destructible";
    string public constant symbol = "BOOM";

    mapping(uint256 => address) private owners;

    function mint(address to, uint256 id) external {
        require(owners[id] == address(0), "minted");
        owners[id] = to;
        emit Transfer(address(0), to, id);
    }

    function transferFrom(address from, address to, uint256 id) external {
        require(owners[id] == from && from == msg.sender, "not the owner");
        owners[id] = to;
        emit Transfer(from, to, id);
    }

    function ownerOf(uint256 id) external view returns (address owner) {
        owner = owners[id];
        require(owner != address(0), "no such token");
    }

    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0x80ac58cd;
    }

    function destroy() external {
        selfdestruct(payable(msg.sender));
    }
}
