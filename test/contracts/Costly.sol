// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {Ledger} from "./Tokens.sol";

/// Answers every call with three megabytes of zeros.
contract LargeAnswers {
    fallback() external {
        assembly {
            return(0, 3000000)
        }
    }
}

/// Uses up all gas of every call.
contract EndlessAnswers {
    fallback() external {
        while (true) {}
    }
}

/// Its name is a megabyte long.
contract LongNameToken is Ledger {
    string public constant symbol = "LONG";
    uint8 public constant decimals = 18;

    function name() external pure returns (string memory) {
        return string(new bytes(1000000));
    }
}

/// A token whose symbol takes all the gas of a call.
contract BurningToken is Ledger {
    string public constant name = "Burning";
    uint8 public constant decimals = 18;

    function symbol() external pure returns (string memory) {
        while (true) {}
    }
}

/// A token of a compiler before 2017: an unknown function takes all the gas of its call.
contract OldToken is Ledger {
    string public constant name = "Old";
    string public constant symbol = "OLD";
    uint8 public constant decimals = 18;

    fallback() external {
        assembly {
            invalid()
        }
    }
}

/// A token whose decimals take half a million gas.
contract HeavyToken is Ledger {
    string public constant name = "Heavy";
    string public constant symbol = "HEAVY";

    function decimals() external view returns (uint8) {
        uint256 before = gasleft();
        while (before - gasleft() < 500_000) {}
        return 18;
    }
}

/// A factory that looks like Uniswap v2's until it is asked for pairs, which take all the gas.
contract TrapFactory {
    function allPairsLength() external pure returns (uint256) {
        return 1;
    }

    function getPair(address, address) external pure returns (address) {
        while (true) {}
    }
}

/// An ERC-721 whose owners follow from the ids, so that one transaction announces thousands of tokens. Two
/// consecutive ids have one owner, and the first `whaleIds` ids have the whale.
contract SpreadNft {
    event Transfer(address indexed from, address indexed to, uint256 indexed id);

    string public constant name = "Spread";
    string public constant symbol = "SPREAD";
    string private base;
    string private suffix;
    uint256 private minted;
    uint256 private immutable whaleIds;
    address private immutable whale;

    constructor(address whale_, uint256 whaleIds_) {
        (whale, whaleIds) = (whale_, whaleIds_);
    }

    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0x80ac58cd || id == 0x5b5e139f;
    }

    function mintMany(uint256 count) external {
        uint256 first = minted;
        for (uint256 id = first; id < first + count; id++) emit Transfer(address(0), ownerOf(id), id);
        minted = first + count;
    }

    function ownerOf(uint256 id) public view returns (address) {
        return id < whaleIds ? whale : address(uint160(uint256(keccak256(abi.encode(id / 2)))));
    }

    function setBaseURI(string calldata base_, string calldata suffix_) external {
        (base, suffix) = (base_, suffix_);
    }

    /// The id is written with six digits.
    function tokenURI(uint256 id) external view returns (string memory) {
        bytes memory digits = new bytes(6);
        for (uint256 at = 6; at > 0; at--) {
            digits[at - 1] = bytes1(uint8(48 + (id % 10)));
            id /= 10;
        }
        return bytes(base).length == 0 ? "" : string.concat(base, string(digits), suffix);
    }
}

/// An ERC-721 whose documents are costly to read, up to an id.
contract CostlyUris {
    event Transfer(address indexed from, address indexed to, uint256 indexed id);

    string public constant name = "Costly";
    string public constant symbol = "COST";
    uint256 private immutable gasEach;
    uint256 private immutable bytesEach;
    uint256 private immutable costlyIds;
    address private immutable owner = msg.sender;

    constructor(uint256 gasEach_, uint256 bytesEach_, uint256 costlyIds_) {
        (gasEach, bytesEach, costlyIds) = (gasEach_, bytesEach_, costlyIds_);
    }

    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0x80ac58cd || id == 0x5b5e139f;
    }

    function mintMany(uint256 count) external {
        for (uint256 id = 0; id < count; id++) emit Transfer(address(0), owner, id);
    }

    function ownerOf(uint256) external view returns (address) {
        return owner;
    }

    function tokenURI(uint256 id) public view returns (string memory) {
        if (id >= costlyIds) return 'data:application/json,{"name":"Cheap"}';
        uint256 before = gasleft();
        while (before - gasleft() < gasEach) {}
        bytes memory spaces = new bytes(bytesEach);
        for (uint256 at = 0; at < bytesEach && at < 64; at++) spaces[at] = " ";
        return string.concat('data:application/json,{"name":"Costly"}', string(spaces));
    }

    function contractURI() external view returns (string memory) {
        return tokenURI(0);
    }
}
