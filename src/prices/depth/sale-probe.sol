// SPDX-License-Identifier: MIT
pragma solidity ^0.8.26;

interface Token {
    function balanceOf(address owner) external view returns (uint256);
    function transfer(address to, uint256 value) external returns (bool);
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

/// Uniswap v3 and Algebra share this signature.
interface Concentrated {
    function swap(address to, bool isFirst, int256 amount, uint160 limit, bytes calldata data)
        external
        returns (int256, int256);
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

/// Buys a token from its pool and sells it again, in one eth_call that puts this code and a balance at an empty
/// address. It reports what each transfer really moved.
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

    /// What the seller sent and what reached the pool; what the pool paid and what reached the buyer.
    struct Trade {
        uint256 sent;
        uint256 arrived;
        uint256 paid;
        uint256 received;
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
    address private current;
    /// What the current pool asked for in its callback, and what reached it.
    uint256 private owed;
    uint256 private reached;

    receive() external payable {}

    /// Takes the legs from the wrapped coin in order, then the last one backwards. Returns the trades up to the first one
    /// that failed, and its revert data.
    function run(address wrapped_, uint256 amount, Leg[] memory legs)
        external
        returns (Trade[] memory trades, bytes memory reason)
    {
        wrapped = wrapped_;
        Wrapped(wrapped_).deposit{value: amount}();
        require(Token(wrapped_).balanceOf(address(this)) >= amount, "not wrapped");
        trades = new Trade[](legs.length + 1);
        uint256 done = 0;
        for (; done < trades.length; done++) {
            Leg memory leg = legs[done < legs.length ? done : legs.length - 1];
            if (done == legs.length) (leg.input, leg.output) = (leg.output, leg.input);
            require(gasleft() > GAS_OF_TRADE + GAS_AROUND, "too little gas");
            try this.trade{gas: GAS_OF_TRADE}(leg, amount) returns (Trade memory made) {
                trades[done] = made;
                amount = made.received;
            } catch (bytes memory data) {
                reason = data;
                break;
            }
        }
        assembly {
            mstore(trades, done)
            if gt(mload(reason), MAX_REASON) { mstore(reason, MAX_REASON) }
        }
    }

    function trade(Leg calldata leg, uint256 amount) external returns (Trade memory made) {
        current = leg.pool;
        uint256 before = Token(leg.output).balanceOf(address(this));
        if (leg.kind == Kind.Singleton) {
            made = abi.decode(Manager(leg.pool).unlock(abi.encode(leg, amount)), (Trade));
        } else if (leg.kind == Kind.Concentrated) {
            made = tradeByCallback(leg, amount);
        } else {
            made = tradeReserves(leg, amount);
        }
        made.received = Token(leg.output).balanceOf(address(this)) - before;
    }

    function tradeReserves(Leg calldata leg, uint256 amount) private returns (Trade memory made) {
        bool isFirst = leg.input < leg.output;
        (made.sent, made.arrived) = (amount, pay(leg.input, leg.pool, amount));
        if (leg.kind == Kind.Quoted) {
            made.paid = Pair(leg.pool).getAmountOut(made.arrived, leg.input);
        } else {
            (uint256 reserve, uint256 other) = Pair(leg.pool).getReserves();
            if (!isFirst) (reserve, other) = (other, reserve);
            // Forks differ in their fees. Asking for less than is due suits all of them, and shows the same taxes.
            uint256 counted = (made.arrived * 95) / 100;
            made.paid = (counted * other) / (reserve + counted);
        }
        Pair(leg.pool).swap(isFirst ? 0 : made.paid, isFirst ? made.paid : 0, address(this), "");
    }

    /// Offers half of the amount: the pool wants its due whole, so a tax is paid on top of it.
    function tradeByCallback(Leg calldata leg, uint256 amount) private returns (Trade memory made) {
        bool isFirst = leg.input < leg.output;
        (int256 delta0, int256 delta1) = Concentrated(leg.pool).swap(
            address(this), isFirst, int256(amount / 2), isFirst ? LOWEST : HIGHEST, abi.encode(leg.input)
        );
        (made.sent, made.arrived) = (owed, reached);
        made.paid = uint256(-(isFirst ? delta1 : delta0));
    }

    /// The callbacks of all exchanges with pools of concentrated liquidity: two amounts, of which the positive one is owed.
    fallback() external {
        // Some tokens call their receiver.
        if (msg.sender != current) return;
        (int256 delta0, int256 delta1, bytes memory data) = abi.decode(msg.data[4:], (int256, int256, bytes));
        address input = abi.decode(data, (address));
        owed = uint256(delta0 > 0 ? delta0 : delta1);
        reached = pay(input, msg.sender, owed);
        if (reached < owed && reached > 0) pay(input, msg.sender, ((owed - reached) * owed) / reached + 2);
    }

    /// Pays first and trades what has arrived.
    function unlockCallback(bytes calldata data) external returns (bytes memory) {
        (Leg memory leg, uint256 amount) = abi.decode(data, (Leg, uint256));
        Manager manager = Manager(msg.sender);
        bool isFirst = leg.output == leg.key.currency1;
        (address input, address output) = isFirst
            ? (leg.key.currency0, leg.key.currency1)
            : (leg.key.currency1, leg.key.currency0);
        Trade memory made;
        made.sent = amount;
        if (input == address(0)) {
            Wrapped(wrapped).withdraw(amount);
            made.arrived = manager.settle{value: amount}();
        } else {
            manager.sync(input);
            pay(input, msg.sender, amount);
            made.arrived = manager.settle();
        }
        int256 delta =
            manager.swap(leg.key, Manager.Order(isFirst, -int256(made.arrived), isFirst ? LOWEST : HIGHEST), "");
        (int256 delta0, int256 delta1) = (delta >> 128, int256(int128(delta)));
        made.paid = uint256(isFirst ? delta1 : delta0);
        uint256 left = made.arrived - uint256(-(isFirst ? delta0 : delta1));
        if (left > 0) manager.take(input, address(this), left);
        manager.take(output, address(this), made.paid);
        if (output == address(0)) Wrapped(wrapped).deposit{value: made.paid}();
        return abi.encode(made);
    }

    /// Returns how much the receiver's balance has grown.
    function pay(address token, address to, uint256 amount) private returns (uint256) {
        uint256 before = Token(token).balanceOf(to);
        // Some tokens return nothing.
        (bool ok, bytes memory said) = token.call(abi.encodeCall(Token.transfer, (to, amount)));
        if (!ok || (said.length > 0 && (said.length < 32 || uint256(bytes32(said)) != 1))) {
            revert PaymentRefused(!ok, said);
        }
        return Token(token).balanceOf(to) - before;
    }
}
