// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {Ledger} from "./Tokens.sol";

/// A token whose name has a million bytes.
contract LongNamedToken is Ledger {
    string public constant symbol = "LONG";
    uint8 public constant decimals = 18;

    function name() external pure returns (string memory text) {
        text = new string(1_000_000);
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

/// A factory that answers every question with three megabytes.
contract LongFactory {
    fallback() external {
        assembly {
            return(0, 3000000)
        }
    }
}

/// A factory that never answers.
contract LoopingFactory {
    fallback() external {
        while (true) {}
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
