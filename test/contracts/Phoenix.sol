// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {Destructible} from "./Destructible.sol";

/// Deploys a destructible ERC-721 at one address, as often as it was destroyed.
contract Phoenix {
    function rise() external returns (address) {
        return address(new Destructible{salt: bytes32(0)}());
    }

    function place() external view returns (address) {
        bytes32 code = keccak256(type(Destructible).creationCode);
        bytes32 hash = keccak256(abi.encodePacked(bytes1(0xff), address(this), bytes32(0), code));
        return address(uint160(uint256(hash)));
    }
}
