// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// The smallest contract that is indexed as an ERC-721 collection, so that its code can be put at a thousand addresses.
contract TinyNft {
    event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);

    mapping(uint256 => address) public ownerOf;

    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x80ac58cd || id == 0x01ffc9a7;
    }

    /// Mints a token, or moves it without an approval.
    function move(uint256 id, address to) external {
        emit Transfer(ownerOf[id], to, id);
        ownerOf[id] = to;
    }
}

/// Moves the same token of many collections in one transaction.
contract TinyBatch {
    function move(TinyNft[] calldata collections, uint256 id, address to) external {
        for (uint256 i = 0; i < collections.length; i++) collections[i].move(id, to);
    }
}
