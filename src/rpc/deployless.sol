// SPDX-License-Identifier: MIT
pragma solidity ^0.8.26;

/// Runs many calls in one eth_call without a target, on chains and at blocks without Multicall3. The constructor reverts
/// with its findings: what it would return counts as a contract's code, which nodes limit to 24,576 bytes.
contract ManyCalls {
    struct Wanted {
        address target;
        bytes data;
    }

    struct Result {
        bool ok;
        bytes data;
    }

    constructor(Wanted[] memory calls) {
        Result[] memory results = new Result[](calls.length);
        for (uint256 i = 0; i < calls.length; i++) {
            (results[i].ok, results[i].data) = calls[i].target.call(calls[i].data);
        }
        bytes memory found = abi.encode(results);
        assembly {
            revert(add(found, 32), mload(found))
        }
    }
}

/// Like ManyCalls for getters of contracts that nobody vouches for: each gets little gas, and a short answer. So one of them
/// can't take the gas of the others. `status` is 1 for an answer, 0 for a failure, 2 if it took all gas that it was given,
/// and 3 for an answer that is too long, which is left out.
contract ManyGetters {
    struct Wanted {
        address target;
        bytes data;
    }

    struct Result {
        uint256 status;
        bytes data;
    }

    constructor(uint256 gasEach, uint256 mostBytes, Wanted[] memory calls) {
        Result[] memory results = new Result[](calls.length);
        for (uint256 i = 0; i < calls.length; i++) {
            address target = calls[i].target;
            bytes memory data = calls[i].data;
            uint256 left = gasleft();
            bool ok;
            uint256 size;
            assembly {
                ok := call(gasEach, target, 0, add(data, 32), mload(data), 0, 0)
                size := returndatasize()
            }
            // Of what is left a call is given 63/64 at most (EIP-150).
            uint256 most = left - left / 64;
            bool isBurning = !ok && left - gasleft() > ((gasEach < most ? gasEach : most) * 9) / 10;
            results[i].status = isBurning ? 2 : !ok ? 0 : size > mostBytes ? 3 : 1;
            if (isBurning || size > mostBytes) continue;
            bytes memory answer = new bytes(size);
            assembly {
                returndatacopy(add(answer, 32), 0, size)
            }
            results[i].data = answer;
        }
        bytes memory found = abi.encode(results);
        assembly {
            revert(add(found, 32), mload(found))
        }
    }
}

/// Tells the code of many addresses in one eth_call without a target: for each one a word with the number of bytes, times
/// 2^24, and the first three bytes, which tell a delegation (EIP-7702) from a contract.
contract ManyCodes {
    constructor(address[] memory targets) {
        bytes memory found = new bytes(targets.length * 32);
        for (uint256 i = 0; i < targets.length; i++) {
            address target = targets[i];
            assembly {
                mstore(0, 0)
                extcodecopy(target, 0, 0, 3)
                mstore(add(add(found, 32), mul(i, 32)), or(shl(24, extcodesize(target)), shr(232, mload(0))))
            }
        }
        assembly {
            revert(add(found, 32), mload(found))
        }
    }
}
