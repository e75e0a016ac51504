// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

interface IToken {
    function transfer(address to, uint256 value) external returns (bool);
}

interface IV3Pool {
    function token0() external view returns (address);
    function token1() external view returns (address);
    function mint(address recipient, int24 lower, int24 upper, uint128 amount, bytes calldata data)
        external
        returns (uint256 amount0, uint256 amount1);
    function burn(int24 lower, int24 upper, uint128 amount) external returns (uint256 amount0, uint256 amount1);
    function collect(address recipient, int24 lower, int24 upper, uint128 amount0, uint128 amount1)
        external
        returns (uint128 collected0, uint128 collected1);
    function swap(address recipient, bool zeroForOne, int256 amount, uint160 limit, bytes calldata data)
        external
        returns (int256 amount0, int256 amount1);
}

/// Adds liquidity to any Uniswap v3 pool and swaps on it. It pays from its own balance for any caller: for tests only.
contract V3Operator {
    function mint(IV3Pool pool, int24 lower, int24 upper, uint128 liquidity) external {
        pool.mint(address(this), lower, upper, liquidity, "");
    }

    function burn(IV3Pool pool, int24 lower, int24 upper, uint128 liquidity) external {
        pool.burn(lower, upper, liquidity);
        pool.collect(msg.sender, lower, upper, type(uint128).max, type(uint128).max);
    }

    /// Swaps. A positive `amount` is the input, a negative one the output.
    function swap(IV3Pool pool, bool zeroForOne, int256 amount, uint160 limit, address recipient) external {
        pool.swap(recipient, zeroForOne, amount, limit, "");
    }

    function uniswapV3MintCallback(uint256 owed0, uint256 owed1, bytes calldata) external {
        if (owed0 > 0) pay(IV3Pool(msg.sender).token0(), owed0);
        if (owed1 > 0) pay(IV3Pool(msg.sender).token1(), owed1);
    }

    function uniswapV3SwapCallback(int256 delta0, int256 delta1, bytes calldata) external {
        if (delta0 > 0) pay(IV3Pool(msg.sender).token0(), uint256(delta0));
        if (delta1 > 0) pay(IV3Pool(msg.sender).token1(), uint256(delta1));
    }

    function pay(address token, uint256 value) private {
        require(IToken(token).transfer(msg.sender, value), "payment refused");
    }
}

/// Stands for the factory of an exchange that forked Uniswap v2. The addresses of such a fork's pairs follow from
/// creation code that no package ships. So the test puts a pair at its address and then registers it here.
contract ForkedV2Factory {
    event PairCreated(address indexed token0, address indexed token1, address pair, uint256);

    address public feeTo;
    address public feeToSetter;
    mapping(address => mapping(address => address)) public getPair;
    address[] public allPairs;

    function allPairsLength() external view returns (uint256) {
        return allPairs.length;
    }

    function register(address token0, address token1, address pair) external {
        require(token0 < token1 && getPair[token0][token1] == address(0), "bad pair");
        getPair[token0][token1] = pair;
        getPair[token1][token0] = pair;
        allPairs.push(pair);
        emit PairCreated(token0, token1, pair, allPairs.length);
    }
}
