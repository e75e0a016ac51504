// SPDX-License-Identifier: MIT
pragma solidity ^0.8.26;

struct Key {
    address currency0;
    address currency1;
    uint24 fee;
    int24 spacing;
    address hooks;
}

struct Order {
    bool isFirst;
    int256 amount;
    uint160 limit;
}

interface Manager {
    function unlock(bytes calldata data) external returns (bytes memory);
    function swap(Key calldata key, Order calldata order, bytes calldata data) external returns (int256);
    function extsload(bytes32 slot) external view returns (bytes32);
}

/// Trades small amounts with pools of Uniswap v4 through their hooks, both ways, in one eth_call without a target: the
/// constructor runs at the block, and returns what the trades gave in place of a contract's code. Each trade reverts once it
/// has told that, so nothing is paid and no token is needed.
contract HookTrades {
    struct Wanted {
        address manager;
        Key key;
    }

    /// Of a trade that was refused all are zero.
    struct Trade {
        bool isMade;
        uint256 paid;
        uint256 got;
        uint256 fee;
    }

    /// isKnown is false if too little gas was left. The first trade pays currency0, the second one currency1.
    struct Traded {
        bool isKnown;
        uint256 root;
        Trade first;
        Trade second;
    }

    /// A hook that burns its gas must not take that of the others.
    uint256 private constant GAS = 3_000_000;
    uint256 private constant GAS_AROUND = 300_000;
    /// The part of what moves the price by 100 % that is traded, where only the liquidity at the price counts.
    uint256 private constant PART = 50_000;
    /// Fewer units say too little, because pools round.
    uint256 private constant LEAST = 10_000;

    /// @param salt the hash of the block, which no contract can know in it: so no hook foresees the trader's address, nor
    /// the hash of its code
    /// Returns the number of the block, then a Traded for each pool.
    constructor(Wanted[] memory pools, bytes32 salt) {
        Trader trader = new Trader{salt: salt}(salt);
        Traded[] memory found = new Traded[](pools.length);
        for (uint256 i = 0; i < pools.length; i++) {
            if (gasleft() < 2 * GAS + GAS_AROUND) break;
            found[i] = tryBoth(trader, pools[i]);
        }
        bytes memory told = abi.encode(blockNumber(), found);
        assembly {
            return(add(told, 32), mload(told))
        }
    }

    function tryBoth(Trader trader, Wanted memory pool) private returns (Traded memory found) {
        uint256 slot = uint256(keccak256(abi.encode(keccak256(abi.encode(pool.key)), uint256(6))));
        found.root = uint160(uint256(Manager(pool.manager).extsload(bytes32(slot))));
        uint256 liquidity = uint128(uint256(Manager(pool.manager).extsload(bytes32(slot + 3))));
        found.isKnown = true;
        if (found.root == 0) return found;
        found.first = tryOne(trader, pool, Order(true, least((liquidity << 96) / found.root), limitOf(found.root, true)));
        uint256 amount = liquidity < 1 << 96 ? (liquidity * found.root) >> 96 : liquidity * (found.root >> 96);
        found.second = tryOne(trader, pool, Order(false, least(amount), limitOf(found.root, false)));
    }

    function least(uint256 side) private pure returns (int256) {
        uint256 amount = side / PART;
        if (amount < LEAST) amount = LEAST;
        if (amount > 1 << 120) amount = 1 << 120;
        return -int256(amount);
    }

    /// Without a limit a trade in an empty pool would look for liquidity at all prices.
    function limitOf(uint256 root, bool isFirst) private pure returns (uint160) {
        uint256 limit = isFirst ? (root * 9) / 10 : (root * 11) / 10;
        if (limit <= 4295128739) limit = 4295128740;
        if (limit >= 1461446703485210103287273052203988822378723970342) {
            limit = 1461446703485210103287273052203988822378723970341;
        }
        return uint160(limit);
    }

    function tryOne(Trader trader, Wanted memory pool, Order memory order) private returns (Trade memory made) {
        try trader.trade{gas: GAS}(pool.manager, pool.key, order) returns (uint256 paid, uint256 got, uint256 fee) {
            made = Trade(true, paid, got, fee);
        } catch {}
    }

    /// On Arbitrum `block.number` is L1's, and this contract has the chain's own. No other chain's answers like it.
    function blockNumber() private view returns (uint256) {
        address arbSys = address(0x64);
        (bool isOk, bytes memory said) = arbSys.staticcall{gas: 150_000}(abi.encodeWithSignature("arbBlockNumber()"));
        return isOk && said.length == 32 ? abi.decode(said, (uint256)) : block.number;
    }
}

/// The manager calls back, which a constructor can't answer.
contract Trader {
    /// A part of the code, so that its hash is another one in each block.
    bytes32 public immutable salt;

    error Told(uint256 paid, uint256 got, uint256 fee);

    constructor(bytes32 salt_) {
        salt = salt_;
    }

    /// Returns what the pool took and gave, hooks included, and its fee after the trade, which a hook may have set.
    function trade(address manager, Key calldata key, Order calldata order)
        external
        returns (uint256 paid, uint256 got, uint256 fee)
    {
        try Manager(manager).unlock(abi.encode(key, order)) {
            revert();
        } catch (bytes memory reason) {
            require(reason.length == 100 && bytes4(reason) == Told.selector);
            assembly {
                paid := mload(add(reason, 36))
                got := mload(add(reason, 68))
                fee := mload(add(reason, 100))
            }
        }
    }

    function unlockCallback(bytes calldata data) external returns (bytes memory) {
        (Key memory key, Order memory order) = abi.decode(data, (Key, Order));
        int256 delta = Manager(msg.sender).swap(key, order, "");
        (int256 delta0, int256 delta1) = (delta >> 128, int256(int128(delta)));
        (int256 input, int256 output) = order.isFirst ? (delta0, delta1) : (delta1, delta0);
        uint256 slot = uint256(keccak256(abi.encode(keccak256(abi.encode(key)), uint256(6))));
        uint256 fee = uint24(uint256(Manager(msg.sender).extsload(bytes32(slot))) >> 208);
        revert Told(input < 0 ? uint256(-input) : 0, output > 0 ? uint256(output) : 0, fee);
    }
}
