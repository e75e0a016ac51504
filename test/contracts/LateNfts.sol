// SPDX-License-Identifier: MIT
pragma solidity ^0.8.22;

library Erc20Events {
    event Transfer(address indexed from, address indexed to, uint256 value);
}

library Erc721Events {
    event Transfer(address indexed from, address indexed to, uint256 indexed id);
}

/// An ERC-404: one contract with fungible units and NFTs. It claims no interface, and mints its NFTs on demand.
contract LateNft {
    string public constant name = "Late";
    string public constant symbol = "LATE";
    uint8 public constant decimals = 18;

    mapping(address => uint256) public balanceOf;
    mapping(uint256 => address) public ownerOf;

    function mint(address to, uint256 value) external {
        balanceOf[to] += value;
        emit Erc20Events.Transfer(address(0), to, value);
    }

    /// Moves single wei back and forth, for a long history in few blocks.
    function shuffle(address to, uint256 count) external {
        for (uint256 i = 0; i < count; i++) emit Erc20Events.Transfer(i % 2 == 0 ? address(this) : to, to, 1);
    }

    function mintNft(address to, uint256 id) external {
        require(ownerOf[id] == address(0), "minted");
        ownerOf[id] = to;
        balanceOf[to] += 1 ether;
        emit Erc20Events.Transfer(address(0), to, 1 ether);
        emit Erc721Events.Transfer(address(0), to, id);
    }
}

/// The fungible half of a DN-404. Each whole unit of an account is an NFT, which the mirror shows and announces.
contract TwinToken {
    event Transfer(address indexed from, address indexed to, uint256 value);

    uint256 private constant UNIT = 1 ether;

    string public constant name = "Twin";
    string public constant symbol = "TWIN";
    uint8 public constant decimals = 18;

    TwinMirror public immutable mirror = new TwinMirror();
    mapping(address => uint256) public balanceOf;
    mapping(address => uint256[]) private owned;
    mapping(uint256 => uint256) private indexOf;
    mapping(uint256 => address) private owners;
    uint256[] private burned;
    uint256 private issued;

    function mint(address to, uint256 value) external {
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
        mintUnits(to);
    }

    function transfer(address to, uint256 value) external returns (bool) {
        balanceOf[msg.sender] -= value;
        balanceOf[to] += value;
        emit Transfer(msg.sender, to, value);
        burnUnits(msg.sender);
        mintUnits(to);
        return true;
    }

    /// The mirror moves one NFT, and with it one whole unit.
    function transferFromNft(address from, address to, uint256 id, address sender) external {
        require(msg.sender == address(mirror), "not the mirror");
        require(owners[id] == from && from == sender, "not the owner");
        balanceOf[from] -= UNIT;
        balanceOf[to] += UNIT;
        drop(from, id);
        give(to, id);
        emit Transfer(from, to, UNIT);
    }

    function ownerOfNft(uint256 id) external view returns (address) {
        return owners[id];
    }

    function balanceOfNft(address owner) external view returns (uint256) {
        return owned[owner].length;
    }

    function mintUnits(address to) private {
        while (owned[to].length < balanceOf[to] / UNIT) {
            uint256 id;
            if (burned.length == 0) id = ++issued;
            else {
                id = burned[burned.length - 1];
                burned.pop();
            }
            give(to, id);
            mirror.announce(address(0), to, id);
        }
    }

    /// The tokens that came last go first.
    function burnUnits(address from) private {
        while (owned[from].length > balanceOf[from] / UNIT) {
            uint256 id = owned[from][owned[from].length - 1];
            drop(from, id);
            burned.push(id);
            mirror.announce(from, address(0), id);
        }
    }

    function give(address to, uint256 id) private {
        owners[id] = to;
        indexOf[id] = owned[to].length;
        owned[to].push(id);
    }

    function drop(address from, uint256 id) private {
        uint256[] storage list = owned[from];
        uint256 last = list[list.length - 1];
        list[indexOf[id]] = last;
        indexOf[last] = indexOf[id];
        list.pop();
        delete owners[id];
    }
}

/// The ERC-721 half of a DN-404. It keeps nothing itself, and emits what its token tells it.
contract TwinMirror {
    event Transfer(address indexed from, address indexed to, uint256 indexed id);

    TwinToken public immutable baseERC20 = TwinToken(msg.sender);

    function name() external view returns (string memory) {
        return baseERC20.name();
    }

    function symbol() external view returns (string memory) {
        return baseERC20.symbol();
    }

    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0x80ac58cd || id == 0x5b5e139f;
    }

    function ownerOf(uint256 id) external view returns (address owner) {
        owner = baseERC20.ownerOfNft(id);
        require(owner != address(0), "no such token");
    }

    function balanceOf(address owner) external view returns (uint256) {
        return baseERC20.balanceOfNft(owner);
    }

    function announce(address from, address to, uint256 id) external {
        require(msg.sender == address(baseERC20), "not the token");
        emit Transfer(from, to, id);
    }

    function transferFrom(address from, address to, uint256 id) external {
        baseERC20.transferFromNft(from, to, id, msg.sender);
        emit Transfer(from, to, id);
    }
}
