// SPDX-License-Identifier: MIT
pragma solidity ^0.8.26;

interface Token {
    function balanceOf(address owner) external view returns (uint256);
    function transfer(address to, uint256 value) external returns (bool);
    function transferFrom(address from, address to, uint256 value) external returns (bool);
    function approve(address spender, uint256 value) external returns (bool);
}

interface Wrapped {
    function deposit() external payable;
    function withdraw(uint256 amount) external;
}

interface Pair {
    function getReserves() external view returns (uint256, uint256);
    function getAmountOut(uint256 amountIn, address tokenIn) external view returns (uint256);
    function swap(uint256 amount0, uint256 amount1, address to, bytes calldata data) external;
}

/// Uniswap v3 and Algebra share the first signature. The other two are those of Algebra 1 and of Algebra Integral for
/// tokens of which less arrives than is sent.
interface Concentrated {
    function swap(address to, bool isFirst, int256 amount, uint160 limit, bytes calldata data)
        external
        returns (int256, int256);
    function swapSupportingFeeOnInputTokens(
        address sender,
        address to,
        bool isFirst,
        int256 amount,
        uint160 limit,
        bytes calldata data
    ) external returns (int256, int256);
    function swapWithPaymentInAdvance(
        address leftoversTo,
        address to,
        bool isFirst,
        int256 amount,
        uint160 limit,
        bytes calldata data
    ) external returns (int256, int256);
}

struct Key {
    address currency0;
    address currency1;
    uint24 fee;
    int24 spacing;
    address hooks;
}

interface Manager {
    struct Order {
        bool isFirst;
        int256 amount;
        uint160 limit;
    }

    function unlock(bytes calldata data) external returns (bytes memory);
    function swap(Key calldata key, Order calldata order, bytes calldata data) external returns (int256);
    function sync(address currency) external;
    function settle() external payable returns (uint256);
    function take(address currency, address to, uint256 amount) external;
}

/// A router that does what the released ones do, without their checks of slippage and deadline. It stands at an empty
/// address of a simulation. Each trade reports what its transfers really moved.
contract SaleProbe {
    enum Kind {
        Product,
        Quoted,
        Concentrated,
        Singleton
    }

    struct Leg {
        Kind kind;
        address pool;
        address input;
        address output;
        Key key;
    }

    /// By how much the payer's balance fell, and what the pool counted; what the pool paid, and by how much the receiver's
    /// balance grew.
    struct Trade {
        uint256 sent;
        uint256 arrived;
        uint256 paid;
        uint256 received;
    }

    /// What is traded, who pays, and who receives.
    struct Order {
        Leg leg;
        uint256 amount;
        address payer;
        address to;
    }

    /// The input token refused the payment: by a revert, or by the answer false.
    error PaymentRefused(bool hasReverted, bytes reason);

    /// A token that burns its gas leaves enough to report it. Without so much the run reverts, and accuses no token.
    uint256 private constant GAS_OF_TRADE = 4_000_000;
    uint256 private constant GAS_AROUND = 200_000;
    uint256 private constant MAX_REASON = 512;
    uint160 private constant LOWEST = 4295128740;
    uint160 private constant HIGHEST = 1461446703485210103287273052203988822378723970341;

    address private wrapped;
    /// True if the chain's coin is a token itself, like Celo's.
    bool private isCoinToken;
    address private current;

    receive() external payable {}

    /// Wraps the coins that come along.
    function wrap(address wrapped_) external payable {
        wrapped = wrapped_;
        isCoinToken = Token(wrapped_).balanceOf(address(this)) >= msg.value;
        deposit(msg.value);
        require(Token(wrapped_).balanceOf(address(this)) >= msg.value, "not wrapped");
    }

    /// Trades all that an earlier step left here.
    function advance(Leg calldata leg, address to) external returns (Trade memory) {
        return trade(Order(leg, Token(leg.input).balanceOf(address(this)), address(this), to));
    }

    /// Trades tokens of the caller, who has approved them.
    function sell(Leg calldata leg, uint256 amount) external returns (Trade memory) {
        return trade(Order(leg, amount, msg.sender, msg.sender));
    }

    /// Does what a wallet does, for nodes that simulate a single call: takes the legs from the wrapped coin in order, and
    /// half of what it received backwards over the last one. Returns the trades up to the first one that failed, and
    /// its revert data.
    function run(SaleProbe router, address wrapped_, uint256 amount, Leg[] memory legs)
        external
        returns (Trade[] memory trades, bytes memory reason)
    {
        router.wrap{value: amount}(wrapped_);
        trades = new Trade[](legs.length + 1);
        uint256 done = 0;
        for (; done < legs.length; done++) {
            require(gasleft() > GAS_OF_TRADE + GAS_AROUND, "too little gas");
            address to = done + 1 == legs.length ? address(this) : address(router);
            try router.advance{gas: GAS_OF_TRADE}(legs[done], to) returns (Trade memory made) {
                trades[done] = made;
            } catch (bytes memory data) {
                reason = data;
                break;
            }
        }
        if (done == legs.length) {
            Leg memory leg = legs[done - 1];
            (leg.input, leg.output) = (leg.output, leg.input);
            amount = trades[done - 1].received / 2;
            // A refused approval shows as a refused payment.
            (bool ok,) = leg.input.call{gas: GAS_OF_TRADE}(abi.encodeCall(Token.approve, (address(router), amount)));
            ok;
            require(gasleft() > GAS_OF_TRADE + GAS_AROUND, "too little gas");
            try router.sell{gas: GAS_OF_TRADE}(leg, amount) returns (Trade memory made) {
                trades[done++] = made;
            } catch (bytes memory data) {
                reason = data;
            }
        }
        assembly {
            mstore(trades, done)
            if gt(mload(reason), MAX_REASON) { mstore(reason, MAX_REASON) }
        }
    }

    function trade(Order memory order) private returns (Trade memory made) {
        Leg memory leg = order.leg;
        current = leg.pool;
        uint256 held = Token(leg.input).balanceOf(order.payer);
        uint256 before = Token(leg.output).balanceOf(order.to);
        if (leg.kind == Kind.Singleton) {
            made = abi.decode(Manager(leg.pool).unlock(abi.encode(order)), (Trade));
        } else if (leg.kind == Kind.Concentrated) {
            made = tradeByCallback(order);
        } else {
            made = tradeReserves(order);
        }
        made.sent = difference(held, Token(leg.input).balanceOf(order.payer));
        made.received = difference(Token(leg.output).balanceOf(order.to), before);
    }

    /// Counts what the pair holds beyond its reserves after the payment, like the routers of Uniswap v2 and of Solidly.
    function tradeReserves(Order memory order) private returns (Trade memory made) {
        Leg memory leg = order.leg;
        bool isFirst = leg.input < leg.output;
        pay(leg.input, order.payer, leg.pool, order.amount);
        (uint256 reserve, uint256 other) = Pair(leg.pool).getReserves();
        if (!isFirst) (reserve, other) = (other, reserve);
        made.arrived = Token(leg.input).balanceOf(leg.pool) - reserve;
        if (leg.kind == Kind.Quoted) {
            made.paid = Pair(leg.pool).getAmountOut(made.arrived, leg.input);
        } else {
            // Forks differ in their fees. Asking for less than is due suits all of them, and shows the same taxes.
            uint256 counted = (made.arrived * 95) / 100;
            made.paid = (counted * other) / (reserve + counted);
        }
        Pair(leg.pool).swap(isFirst ? 0 : made.paid, isFirst ? made.paid : 0, order.to, "");
    }

    /// The pool wants its due whole. Where it refuses, the ways of Algebra for taxed tokens are tried.
    function tradeByCallback(Order memory order) private returns (Trade memory made) {
        bool isFirst = order.leg.input < order.leg.output;
        (int256 amount, uint160 limit) = (int256(order.amount), isFirst ? LOWEST : HIGHEST);
        bytes memory data = abi.encode(order.leg.input, order.payer);
        bytes[3] memory ways = [
            abi.encodeCall(Concentrated.swap, (order.to, isFirst, amount, limit, data)),
            abi.encodeCall(
                Concentrated.swapSupportingFeeOnInputTokens, (order.payer, order.to, isFirst, amount, limit, data)
            ),
            abi.encodeCall(Concentrated.swapWithPaymentInAdvance, (order.payer, order.to, isFirst, amount, limit, data))
        ];
        bytes memory reason;
        for (uint256 way = 0; way < 3; way++) {
            (bool ok, bytes memory said) = order.leg.pool.call(ways[way]);
            if (ok && said.length == 64) {
                (int256 delta0, int256 delta1) = abi.decode(said, (int256, int256));
                (made.arrived, made.paid) =
                    isFirst ? (uint256(delta0), uint256(-delta1)) : (uint256(delta1), uint256(-delta0));
                return made;
            }
            if (way == 0) reason = said;
        }
        assembly {
            revert(add(reason, 32), mload(reason))
        }
    }

    /// The callbacks of all exchanges with pools of concentrated liquidity: two amounts, of which the positive one is owed.
    fallback() external {
        // Some tokens call their receiver.
        if (msg.sender != current) return;
        (int256 delta0, int256 delta1, bytes memory data) = abi.decode(msg.data[4:], (int256, int256, bytes));
        (address input, address payer) = abi.decode(data, (address, address));
        pay(input, payer, msg.sender, uint256(delta0 > 0 ? delta0 : delta1));
    }

    /// Pays first and trades what has arrived, as the router of Uniswap v4 does with an open amount.
    function unlockCallback(bytes calldata data) external returns (bytes memory) {
        Order memory order = abi.decode(data, (Order));
        Leg memory leg = order.leg;
        Manager manager = Manager(msg.sender);
        bool isFirst = leg.output == leg.key.currency1;
        (address input, address output) = isFirst
            ? (leg.key.currency0, leg.key.currency1)
            : (leg.key.currency1, leg.key.currency0);
        Trade memory made;
        if (input == address(0)) {
            pay(wrapped, order.payer, address(this), order.amount);
            if (!isCoinToken) Wrapped(wrapped).withdraw(order.amount);
            made.arrived = manager.settle{value: order.amount}();
        } else {
            manager.sync(input);
            pay(input, order.payer, msg.sender, order.amount);
            made.arrived = manager.settle();
        }
        int256 delta =
            manager.swap(leg.key, Manager.Order(isFirst, -int256(made.arrived), isFirst ? LOWEST : HIGHEST), "");
        (int256 delta0, int256 delta1) = (delta >> 128, int256(int128(delta)));
        made.paid = uint256(isFirst ? delta1 : delta0);
        uint256 left = made.arrived - uint256(-(isFirst ? delta0 : delta1));
        if (left > 0) manager.take(input, order.payer, left);
        if (output == address(0)) {
            manager.take(output, address(this), made.paid);
            deposit(made.paid);
            pay(wrapped, address(this), order.to, made.paid);
        } else {
            manager.take(output, order.to, made.paid);
        }
        return abi.encode(made);
    }

    function deposit(uint256 amount) private {
        if (!isCoinToken) Wrapped(wrapped).deposit{value: amount}();
    }

    function pay(address token, address from, address to, uint256 amount) private {
        if (from == to) return;
        (bool ok, bytes memory said) = token.call(
            from == address(this)
                ? abi.encodeCall(Token.transfer, (to, amount))
                : abi.encodeCall(Token.transferFrom, (from, to, amount))
        );
        // Some tokens return nothing.
        if (!ok || (said.length > 0 && (said.length < 32 || uint256(bytes32(said)) != 1))) {
            assembly {
                if gt(mload(said), MAX_REASON) { mstore(said, MAX_REASON) }
            }
            revert PaymentRefused(!ok, said);
        }
    }

    function difference(uint256 more, uint256 less) private pure returns (uint256) {
        return more > less ? more - less : 0;
    }
}
