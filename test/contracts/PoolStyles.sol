// SPDX-License-Identifier: MIT
pragma solidity ^0.8.26;

import {PoolFactory} from "sphere-mezo-solidity-files/domains/aerodrome/contracts/factories/PoolFactory.sol";
import {Pool} from "sphere-mezo-solidity-files/domains/aerodrome/contracts/Pool.sol";

interface IPaidPool {
    function token0() external view returns (address);
    function token1() external view returns (address);
}

interface IPayable {
    function transfer(address to, uint256 value) external returns (bool);
}

/// Aerodrome's pair and factory, unchanged.
contract SolidlyPair is Pool {}

contract SolidlyFactory is PoolFactory {
    constructor(address implementation_) PoolFactory(implementation_) {}
}

/// Stands for the factory of Solidly's first version: other names, and pairs as the one of the second version makes.
contract SolidlyV1Factory {
    event PairCreated(address indexed token0, address indexed token1, bool stable, address pair, uint256 count);

    PoolFactory private immutable maker;

    constructor(address implementation_) {
        maker = new PoolFactory(implementation_);
    }

    function allPairsLength() external view returns (uint256) {
        return maker.allPoolsLength();
    }

    function getPair(address a, address b, bool stable) external view returns (address) {
        return maker.getPool(a, b, stable);
    }

    function createPair(address a, address b, bool stable) external returns (address pair) {
        pair = maker.createPool(a, b, stable);
        (address token0, address token1) = a < b ? (a, b) : (b, a);
        emit PairCreated(token0, token1, stable, pair, maker.allPoolsLength());
    }
}

/// Makes pools of PancakeSwap v3, whose package lacks this contract. It is given the pool's creation code.
contract PancakeDeployer {
    struct Parameters {
        address factory;
        address token0;
        address token1;
        uint24 fee;
        int24 tickSpacing;
    }

    Parameters public parameters;
    bytes private code;

    constructor(bytes memory code_) {
        code = code_;
    }

    function deploy(address factory, address token0, address token1, uint24 fee, int24 tickSpacing)
        external
        returns (address pool)
    {
        parameters = Parameters(factory, token0, token1, fee, tickSpacing);
        bytes memory creation = code;
        bytes32 salt = keccak256(abi.encode(token0, token1, fee));
        assembly {
            pool := create2(0, add(creation, 32), mload(creation), salt)
        }
        require(pool != address(0), "not created");
        delete parameters;
    }
}

/// Calls pools of any kind with concentrated liquidity, and pays what their callbacks ask for.
contract PoolCaller {
    function run(address pool, bytes calldata data) external {
        (bool ok, bytes memory returned) = pool.call(data);
        if (!ok) {
            assembly {
                revert(add(returned, 32), mload(returned))
            }
        }
    }

    /// Any callback: two amounts, of which the positive ones are owed.
    fallback() external {
        (int256 owed0, int256 owed1) = abi.decode(msg.data[4:], (int256, int256));
        if (owed0 > 0) IPayable(IPaidPool(msg.sender).token0()).transfer(msg.sender, uint256(owed0));
        if (owed1 > 0) IPayable(IPaidPool(msg.sender).token1()).transfer(msg.sender, uint256(owed1));
    }
}

/// Answers every call with one word of zero.
contract ZeroAnswers {
    fallback() external {
        assembly {
            return(0, 32)
        }
    }
}
