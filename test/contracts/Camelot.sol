// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

interface IBalances {
    function balanceOf(address owner) external view returns (uint256);
    function transfer(address to, uint256 value) external returns (bool);
    function decimals() external view returns (uint8);
}

/// A pair with one fee per direction and two curves, xy or x³y + y³x, behind the getters of Camelot's pairs.
contract CamelotPair {
    event Sync(uint112 reserve0, uint112 reserve1);

    uint256 private constant FEE_DENOMINATOR = 100_000;

    address public immutable factory = msg.sender;
    address public token0;
    address public token1;
    bool public stableSwap;
    uint16 public token0FeePercent = 300;
    uint16 public token1FeePercent = 300;
    uint256 private unit0;
    uint256 private unit1;
    uint112 private reserve0;
    uint112 private reserve1;

    function initialize(address token0_, address token1_) external {
        require(msg.sender == factory, "not the factory");
        (token0, token1) = (token0_, token1_);
        unit0 = 10 ** IBalances(token0_).decimals();
        unit1 = 10 ** IBalances(token1_).decimals();
    }

    function set(bool stableSwap_, uint16 fee0, uint16 fee1) external {
        (stableSwap, token0FeePercent, token1FeePercent) = (stableSwap_, fee0, fee1);
    }

    function getReserves() external view returns (uint112, uint112, uint16, uint16) {
        return (reserve0, reserve1, token0FeePercent, token1FeePercent);
    }

    /// Sets the reserves to the pair's balances.
    function sync() public {
        reserve0 = uint112(IBalances(token0).balanceOf(address(this)));
        reserve1 = uint112(IBalances(token1).balanceOf(address(this)));
        emit Sync(reserve0, reserve1);
    }

    /// Pays out for tokens that were transferred to the pair before this call.
    function sell(address tokenIn, address to) external returns (uint256 out) {
        bool first = tokenIn == token0;
        out = getAmountOut(IBalances(tokenIn).balanceOf(address(this)) - (first ? reserve0 : reserve1), tokenIn);
        require(IBalances(first ? token1 : token0).transfer(to, out), "payment refused");
        sync();
    }

    /// Pays out as much, if the tokens that were transferred before are worth it.
    function swap(uint256 amount0, uint256 amount1, address to, bytes calldata) external {
        address tokenIn = amount0 == 0 ? token0 : token1;
        uint256 given = IBalances(tokenIn).balanceOf(address(this)) - (amount0 == 0 ? reserve0 : reserve1);
        require(amount0 + amount1 <= getAmountOut(given, tokenIn), "K");
        address tokenOut = amount0 == 0 ? token1 : token0;
        (bool ok, bytes memory said) = tokenOut.call(abi.encodeCall(IBalances.transfer, (to, amount0 + amount1)));
        require(ok && (said.length == 0 || abi.decode(said, (bool))), "payment refused");
        sync();
    }

    /// Returns the largest output that doesn't lower the curve's value. It is found by bisection.
    function getAmountOut(uint256 amountIn, address tokenIn) public view returns (uint256 low) {
        bool first = tokenIn == token0;
        uint256 net = amountIn - (amountIn * (first ? token0FeePercent : token1FeePercent)) / FEE_DENOMINATOR;
        uint256 least = curve(reserve0, reserve1);
        uint256 high = first ? reserve1 : reserve0;
        while (high - low > 1) {
            uint256 middle = (low + high) / 2;
            uint256 after_ = first ? curve(reserve0 + net, reserve1 - middle) : curve(reserve0 - middle, reserve1 + net);
            if (after_ >= least) low = middle;
            else high = middle;
        }
    }

    function curve(uint256 amount0, uint256 amount1) private view returns (uint256) {
        if (!stableSwap) return amount0 * amount1;
        uint256 x = (amount0 * 1e18) / unit0;
        uint256 y = (amount1 * 1e18) / unit1;
        return (((x * y) / 1e18) * ((x * x) / 1e18 + (y * y) / 1e18)) / 1e18;
    }
}

/// Creates Camelot pairs and answers like a v2 factory.
contract CamelotFactory {
    event PairCreated(address indexed token0, address indexed token1, address pair, uint256 length);

    mapping(address => mapping(address => address)) public getPair;
    address[] public allPairs;

    function allPairsLength() external view returns (uint256) {
        return allPairs.length;
    }

    function createPair(address a, address b) external returns (address pair) {
        (address token0, address token1) = a < b ? (a, b) : (b, a);
        require(a != b && getPair[a][b] == address(0), "bad pair");
        CamelotPair made = new CamelotPair();
        made.initialize(token0, token1);
        pair = address(made);
        (getPair[a][b], getPair[b][a]) = (pair, pair);
        allPairs.push(pair);
        emit PairCreated(token0, token1, pair, allPairs.length);
    }
}
