// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// Ownership without events and without ERC-165: the common base of the odd collections below.
abstract contract Ownership {
    mapping(uint256 => address) internal owners;
    mapping(address => uint256) private held;

    function balanceOf(address owner) external view returns (uint256) {
        return held[owner];
    }

    function ownerOf(uint256 id) public view virtual returns (address owner) {
        owner = owners[id];
        require(owner != address(0), "no such token");
    }

    function mint(address to, uint256 id) public {
        require(owners[id] == address(0), "minted");
        record(address(0), to, id);
    }

    function mintMany(address to, uint256 firstId, uint256 count) external {
        for (uint256 i = 0; i < count; i++) mint(to, firstId + i);
    }

    function transferFrom(address from, address to, uint256 id) external {
        require(owners[id] == from && from == msg.sender, "not the owner");
        record(from, to, id);
    }

    function burn(uint256 id) external {
        address owner = owners[id];
        require(owner != address(0), "no such token");
        record(owner, address(0), id);
    }

    function record(address from, address to, uint256 id) private {
        if (from != address(0)) held[from]--;
        if (to != address(0)) held[to]++;
        owners[id] = to;
        announce(from, to, id);
    }

    function announce(address from, address to, uint256 id) internal virtual;
}

/// ERC-721's Transfer without the index on the id: three topics and the id as data, exactly the shape of ERC-20.
contract ThreeTopicNft is Ownership {
    event Transfer(address indexed from, address indexed to, uint256 tokenId);

    string public constant name = "Three Topics";
    string public constant symbol = "TRI";

    function announce(address from, address to, uint256 id) internal override {
        emit Transfer(from, to, id);
    }
}

/// Only the events and the ownerOf of ERC-721: no ERC-165, no name, no symbol, no URIs.
contract BareNft is Ownership {
    event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);

    function announce(address from, address to, uint256 id) internal override {
        emit Transfer(from, to, id);
    }
}

/// An ERC-721 with name and symbol as bytes32 and not as strings.
contract Bytes32Nft is Ownership {
    event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);

    bytes32 public constant name = "Bytes Name";
    bytes32 public constant symbol = "B32";

    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0x80ac58cd || id == 0x5b5e139f;
    }

    function tokenURI(uint256 id) external view returns (string memory) {
        require(owners[id] != address(0), "no such token");
        return "data:application/json,%7B%22name%22%3A%22Bytes%22%7D";
    }

    function announce(address from, address to, uint256 id) internal override {
        emit Transfer(from, to, id);
    }
}

/// Claims to be both ERC-721 and ERC-1155, and emits both kinds of event for each movement.
contract Hybrid is Ownership {
    event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);
    event TransferSingle(
        address indexed operator, address indexed from, address indexed to, uint256 id, uint256 value
    );

    string public constant name = "Hybrid";
    string public constant symbol = "HYB";

    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0x80ac58cd || id == 0xd9b67a26;
    }

    function balanceOf(address owner, uint256 id) external view returns (uint256) {
        return owners[id] == owner && owner != address(0) ? 1 : 0;
    }

    function announce(address from, address to, uint256 id) internal override {
        emit Transfer(from, to, id);
        emit TransferSingle(msg.sender, from, to, id, 1);
    }
}

/// ERC-721 and ERC-6909 at once: each move is announced as one token, and as an amount of one.
contract ClaimHybrid is Ownership {
    event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);
    event Transfer(address caller, address indexed from, address indexed to, uint256 indexed id, uint256 amount);

    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0x0f632fb3;
    }

    function announce(address from, address to, uint256 id) internal override {
        emit Transfer(from, to, id);
        emit Transfer(msg.sender, from, to, id, 1);
    }
}

/// CryptoCats: the first owner is announced by CryptoPunks' event, everything later by events and views of its own.
contract AssignedCats {
    event Assign(address indexed to, uint256 catIndex);
    event Transfer(address indexed from, address indexed to, uint256 value);

    string public constant name = "CRYPTOCATS";
    string public constant symbol = "CCAT";
    uint8 public constant decimals = 0;

    mapping(uint256 => address) public catIndexToAddress;

    function getCat(uint256 index) external {
        require(catIndexToAddress[index] == address(0), "taken");
        catIndexToAddress[index] = msg.sender;
        emit Assign(msg.sender, index);
    }

    /// The event's value is the cat's index here. In a sale it would be a number of cats.
    function transfer(address to, uint256 index) external {
        require(catIndexToAddress[index] == msg.sender, "not the owner");
        catIndexToAddress[index] = to;
        emit Transfer(msg.sender, to, index);
    }
}
