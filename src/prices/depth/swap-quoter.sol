// SPDX-License-Identifier: MIT
pragma solidity ^0.8.26;

interface Pair {
    function getReserves() external view returns (uint256, uint256);
    function getAmountOut(uint256 amountIn, address tokenIn) external view returns (uint256);
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
}

/// Tells what swaps would give. Each begins in its pool and reverts with its amounts where the pool asks for payment.
contract SwapQuoter {
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
        /// Of a pair of reserves, in millionths.
        uint256 fee;
        Key key;
    }

    error Swapped(uint256 paid, uint256 given);

    uint256 private constant MILLION = 1_000_000;
    uint160 private constant LOWEST = 4295128740;
    uint160 private constant HIGHEST = 1461446703485210103287273052203988822378723970341;
    /// More than any pool holds; amounts of Uniswap v4 have 127 bits.
    uint256 private constant ENDLESS = uint256(uint128(type(int128).max));
    uint256 private constant GAS_OF_ROUTE = 4_000_000;

    /// What a sale over the legs gives for `tokens`, and a purchase over the others for `dollars`. What the first leg's pool
    /// gives until its root is `down`, and takes until it is `up`. Zero for what fails.
    function measure(
        Leg[] calldata sale,
        uint256 tokens,
        Leg[] calldata purchase,
        uint256 dollars,
        uint160 down,
        uint160 up
    ) external returns (uint256 sold, uint256 bought, uint256 given, uint256 paid) {
        try this.route{gas: GAS_OF_ROUTE}(sale, tokens) returns (uint256 said) {
            sold = said;
        } catch {}
        try this.route{gas: GAS_OF_ROUTE}(purchase, dollars) returns (uint256 said) {
            bought = said;
        } catch {}
        if (down != 0) {
            try this.until{gas: GAS_OF_ROUTE}(sale[0], down) returns (uint256, uint256 said) {
                given = said;
            } catch {}
            try this.until{gas: GAS_OF_ROUTE}(purchase[purchase.length - 1], up) returns (uint256 said, uint256) {
                paid = said;
            } catch {}
        }
    }

    function route(Leg[] calldata legs, uint256 amount) external returns (uint256) {
        for (uint256 index = 0; index < legs.length; index++) {
            (uint256 paid, uint256 given) = quote(legs[index], amount, 0);
            require(paid == amount && given > 0, "not whole");
            amount = given;
        }
        return amount;
    }

    function until(Leg calldata leg, uint160 limit) external returns (uint256 paid, uint256 given) {
        (paid,) = quote(leg, ENDLESS, limit);
        (, given) = quote(leg, paid, 0);
    }

    /// @param limit the root of the price at which the swap ends, or 0 for none
    function quote(Leg calldata leg, uint256 amount, uint160 limit) private returns (uint256, uint256) {
        if (leg.kind == Kind.Quoted) return (amount, Pair(leg.pool).getAmountOut(amount, leg.input));
        if (leg.kind == Kind.Product) {
            (uint256 own, uint256 other) = Pair(leg.pool).getReserves();
            if (leg.input > leg.output) (own, other) = (other, own);
            uint256 left = amount * (MILLION - leg.fee);
            return (amount, (left * other) / (own * MILLION + left));
        }
        require(amount <= ENDLESS, "too much");
        bytes memory asked;
        if (leg.kind == Kind.Singleton) {
            asked = abi.encodeCall(Manager.unlock, (abi.encode(leg, amount, limit)));
        } else {
            bool isFirst = leg.input < leg.output;
            asked = abi.encodeCall(
                Concentrated.swap, (address(this), isFirst, int256(amount), limitOf(limit, isFirst), "")
            );
        }
        (bool ok, bytes memory said) = leg.pool.call(asked);
        require(!ok && said.length == 68 && bytes4(said) == Swapped.selector, "no quote");
        assembly {
            // Only the amounts are left.
            said := add(said, 4)
            mstore(said, 64)
        }
        return abi.decode(said, (uint256, uint256));
    }

    function limitOf(uint160 limit, bool isFirst) private pure returns (uint160) {
        return limit != 0 ? limit : isFirst ? LOWEST : HIGHEST;
    }

    /// The callbacks of all exchanges with pools of concentrated liquidity.
    fallback() external {
        (int256 delta0, int256 delta1) = abi.decode(msg.data[4:], (int256, int256));
        revertWith(delta0, delta1);
    }

    function unlockCallback(bytes calldata data) external {
        (Leg memory leg, uint256 amount, uint160 limit) = abi.decode(data, (Leg, uint256, uint160));
        bool isFirst = leg.output == leg.key.currency1;
        int256 delta = Manager(msg.sender).swap(
            leg.key, Manager.Order(isFirst, -int256(amount), limitOf(limit, isFirst)), ""
        );
        // The manager's amounts are the caller's.
        revertWith(-(delta >> 128), -int256(int128(delta)));
    }

    function revertWith(int256 delta0, int256 delta1) private pure {
        (int256 paid, int256 given) = delta0 > 0 ? (delta0, -delta1) : (delta1, -delta0);
        revert Swapped(uint256(paid), uint256(given > 0 ? given : int256(0)));
    }
}
