// SPDX-License-Identifier: MIT
pragma solidity ^0.8.26;

/// Measures pools of concentrated liquidity in one eth_call without a target: the constructor runs at the block, and
/// returns its findings in place of a contract's code, which nodes limit to 24,576 bytes. A pool is inside Uniswap v4's
/// manager (storage layout: v4-core's Pool.State), or a contract of its own.
contract LiquidityMeter {
    enum Kind { Keyed, Contract, Algebra, AlgebraIntegral }
    enum Part { Slot0, Liquidity, Bitmap, Tick }

    /// @param target the manager or the pool; id of a keyed pool only; spacing zero for a pool that tells its own
    struct Wanted {
        Kind kind;
        address target;
        bytes32 id;
        int24 spacing;
    }

    /// held: what positions hold of each token on its side of the price, up to `reach` ticks away
    /// given: what the pool gives of each token while its price moves by the wanted part
    struct Measured {
        bool isKnown;
        uint256 held0;
        uint256 held1;
        uint256 given0;
        uint256 given1;
    }

    struct Walk {
        Wanted pool;
        bool hasFailed;
        int256 tick;
        int256 spacing;
        int256 liquidity;
        uint256 root;
        int256 reach;
        uint256 most;
    }

    int256 private constant LAST_TICK = 887272;
    /// A pool that fails with all of its gas must not take that of the others.
    uint256 private constant GAS = 150_000;

    /// @param reach ticks on each side of the price
    /// @param most initialised ticks on each side; liquidity beyond them counts for nothing
    /// @param moved the root of the part by which the price moves, times 2^64
    /// Returns the number of the block, then a Measured for each pool.
    constructor(Wanted[] memory pools, int256 reach, uint256 most, uint256 moved) {
        Measured[] memory found = new Measured[](pools.length);
        for (uint256 i = 0; i < pools.length; i++) found[i] = measure(pools[i], reach, most, moved);
        bytes memory told = abi.encode(blockNumber(), found);
        assembly {
            return(add(told, 32), mload(told))
        }
    }

    /// On Arbitrum `block.number` is L1's, and this contract has the chain's own. No other chain's answers like it.
    function blockNumber() private view returns (uint256) {
        address arbSys = address(0x64);
        (bool isOk, bytes memory said) = arbSys.staticcall{gas: GAS}(abi.encodeWithSignature("arbBlockNumber()"));
        return isOk && said.length == 32 ? abi.decode(said, (uint256)) : block.number;
    }

    function measure(Wanted memory pool, int256 reach, uint256 most, uint256 moved)
        private
        view
        returns (Measured memory found)
    {
        Walk memory walk;
        (walk.pool, walk.reach, walk.most, walk.spacing) = (pool, reach, most, pool.spacing);
        (uint256 root, uint256 tick) = read(walk, Part.Slot0, 0);
        (walk.root, walk.tick) = (root, int24(uint24(tick)));
        (uint256 liquidity,) = read(walk, Part.Liquidity, 0);
        walk.liquidity = int256(uint256(uint128(liquidity)));
        if (pool.spacing == 0) walk.spacing = ownSpacing(walk);
        if (walk.hasFailed || walk.root == 0 || walk.spacing <= 0) return found;
        (found.held0, found.given0) = side(walk, 1, (root * moved) >> 64);
        (found.held1, found.given1) = side(walk, -1, (root << 64) / moved);
        if (!walk.hasFailed) found.isKnown = true;
    }

    /// Walks the ticks above or below the price. Returns what positions hold there, and what of it is before `until`.
    function side(Walk memory walk, int256 sign, uint256 until) private view returns (uint256 held, uint256 given) {
        int256 unit = walk.pool.kind == Kind.AlgebraIntegral ? int256(1) : walk.spacing;
        int256 place = floored(walk.tick, unit);
        int256 last = walk.tick + sign * walk.reach;
        if (last > LAST_TICK) last = LAST_TICK;
        if (last < -LAST_TICK) last = -LAST_TICK;
        int256 active = walk.liquidity;
        uint256 from = walk.root;
        uint256 count = 0;
        for (int256 word = place >> 8; isBefore((sign > 0 ? word * 256 : word * 256 + 255) * unit, last, sign); word += sign) {
            (uint256 bits,) = read(walk, Part.Bitmap, word);
            while (bits != 0) {
                // The lowest bit of words above the price, the highest of the others.
                uint256 bit = highestBit(sign > 0 ? bits & (~bits + 1) : bits);
                bits ^= 1 << bit;
                int256 step = word * 256 + int256(bit);
                if ((step > place) != (sign > 0)) continue;
                if (!isBefore(step * unit, last, sign)) break;
                if (count++ == walk.most) return (held, given);
                uint256 to = rootAt(step * unit);
                held += amount(active, from, to, sign);
                given += amount(active, from, nearer(to, until, sign), sign);
                (uint256 gross, uint256 net) = read(walk, Part.Tick, step * unit);
                active += sign * int256(int128(uint128(net)));
                if (walk.hasFailed || gross == 0 || active < 0) {
                    walk.hasFailed = true;
                    return (0, 0);
                }
                from = to;
            }
        }
        held += amount(active, from, rootAt(last), sign);
        given += amount(active, from, nearer(rootAt(last), until, sign), sign);
    }

    function isBefore(int256 tick, int256 last, int256 sign) private pure returns (bool) {
        return sign > 0 ? tick <= last : tick >= last;
    }

    function nearer(uint256 root, uint256 until, int256 sign) private pure returns (uint256) {
        return (root < until) == (sign > 0) ? root : until;
    }

    /// The token0 above, or the token1 below, that this liquidity holds between two roots. Rounds down.
    function amount(int256 active, uint256 from, uint256 to, int256 sign) private pure returns (uint256) {
        if (active <= 0 || (sign > 0 ? to <= from : to >= from)) return 0;
        uint256 liquidity = uint256(active);
        if (sign > 0) {
            uint256 below = (liquidity << 96) / from;
            uint256 above = (liquidity << 96) / to;
            return below - above;
        }
        uint256 apart = from - to;
        return apart >> 128 == 0 ? (liquidity * apart) >> 96 : (liquidity * (apart >> 32)) >> 64;
    }

    function floored(int256 tick, int256 unit) private pure returns (int256 place) {
        place = tick / unit;
        if (tick < 0 && tick % unit != 0) place--;
    }

    function ownSpacing(Walk memory walk) private view returns (int256) {
        (uint256 spacing,) = words(walk, abi.encodeWithSignature("tickSpacing()"), 1);
        return int24(uint24(spacing));
    }

    /// Reads a part: slot 0 as root and tick, a tick as gross and net liquidity, the others as one word.
    function read(Walk memory walk, Part part, int256 index) private view returns (uint256, uint256) {
        if (walk.pool.kind == Kind.Keyed) return stored(walk, part, index);
        bool isAlgebra = walk.pool.kind != Kind.Contract;
        if (part == Part.Slot0) return words(walk, abi.encodeWithSignature(isAlgebra ? "globalState()" : "slot0()"), 2);
        if (part == Part.Liquidity) return words(walk, abi.encodeWithSignature("liquidity()"), 1);
        if (part == Part.Tick) return words(walk, abi.encodeWithSignature("ticks(int24)", index), 2);
        string memory table = isAlgebra ? "tickTable(int16)" : "tickBitmap(int16)";
        return words(walk, abi.encodeWithSignature(table, index), 1);
    }

    function stored(Walk memory walk, Part part, int256 index) private view returns (uint256 first, uint256 second) {
        uint256 slot = uint256(keccak256(abi.encode(walk.pool.id, uint256(6))));
        if (part == Part.Liquidity) slot += 3;
        if (part == Part.Tick) slot = uint256(keccak256(abi.encode(index, slot + 4)));
        if (part == Part.Bitmap) slot = uint256(keccak256(abi.encode(index, slot + 5)));
        (first,) = words(walk, abi.encodeWithSignature("extsload(bytes32)", slot), 1);
        if (part == Part.Slot0) (first, second) = (uint256(uint160(first)), first >> 160);
        if (part == Part.Tick) (first, second) = (uint256(uint128(first)), first >> 128);
    }

    function words(Walk memory walk, bytes memory data, uint256 count) private view returns (uint256 first, uint256 second) {
        (bool isOk, bytes memory said) = walk.pool.target.staticcall{gas: GAS}(data);
        if (!isOk || said.length < 32 * count) {
            walk.hasFailed = true;
            return (0, 0);
        }
        assembly {
            first := mload(add(said, 32))
            second := mload(add(said, 64))
        }
    }

    function highestBit(uint256 bits) private pure returns (uint256 place) {
        for (uint256 half = 128; half > 0; half >>= 1) {
            if (bits >> half == 0) continue;
            bits >>= half;
            place += half;
        }
    }

    /// The root of the price at a tick, times 2^96: 1.0001^(tick / 2), rounded as in v3-core's TickMath.
    function rootAt(int256 tick) private pure returns (uint256) {
        uint256 steps = uint256(tick < 0 ? -tick : tick);
        uint256 ratio = 1 << 128;
        if (steps & 0x1 != 0) ratio = (ratio * 0xfffcb933bd6fad37aa2d162d1a594001) >> 128;
        if (steps & 0x2 != 0) ratio = (ratio * 0xfff97272373d413259a46990580e213a) >> 128;
        if (steps & 0x4 != 0) ratio = (ratio * 0xfff2e50f5f656932ef12357cf3c7fdcc) >> 128;
        if (steps & 0x8 != 0) ratio = (ratio * 0xffe5caca7e10e4e61c3624eaa0941cd0) >> 128;
        if (steps & 0x10 != 0) ratio = (ratio * 0xffcb9843d60f6159c9db58835c926644) >> 128;
        if (steps & 0x20 != 0) ratio = (ratio * 0xff973b41fa98c081472e6896dfb254c0) >> 128;
        if (steps & 0x40 != 0) ratio = (ratio * 0xff2ea16466c96a3843ec78b326b52861) >> 128;
        if (steps & 0x80 != 0) ratio = (ratio * 0xfe5dee046a99a2a811c461f1969c3053) >> 128;
        if (steps & 0x100 != 0) ratio = (ratio * 0xfcbe86c7900a88aedcffc83b479aa3a4) >> 128;
        if (steps & 0x200 != 0) ratio = (ratio * 0xf987a7253ac413176f2b074cf7815e54) >> 128;
        if (steps & 0x400 != 0) ratio = (ratio * 0xf3392b0822b70005940c7a398e4b70f3) >> 128;
        if (steps & 0x800 != 0) ratio = (ratio * 0xe7159475a2c29b7443b29c7fa6e889d9) >> 128;
        if (steps & 0x1000 != 0) ratio = (ratio * 0xd097f3bdfd2022b8845ad8f792aa5825) >> 128;
        if (steps & 0x2000 != 0) ratio = (ratio * 0xa9f746462d870fdf8a65dc1f90e061e5) >> 128;
        if (steps & 0x4000 != 0) ratio = (ratio * 0x70d869a156d2a1b890bb3df62baf32f7) >> 128;
        if (steps & 0x8000 != 0) ratio = (ratio * 0x31be135f97d08fd981231505542fcfa6) >> 128;
        if (steps & 0x10000 != 0) ratio = (ratio * 0x9aa508b5b7a84e1c677de54f3e99bc9) >> 128;
        if (steps & 0x20000 != 0) ratio = (ratio * 0x5d6af8dedb81196699c329225ee604) >> 128;
        if (steps & 0x40000 != 0) ratio = (ratio * 0x2216e584f5fa1ea926041bedfe98) >> 128;
        if (steps & 0x80000 != 0) ratio = (ratio * 0x48a170391f7dc42444e8fa2) >> 128;
        if (tick > 0) ratio = type(uint256).max / ratio;
        return (ratio + (1 << 32) - 1) >> 32;
    }
}
