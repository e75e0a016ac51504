// SPDX-License-Identifier: MIT
pragma solidity ^0.8.26;

interface PoolManager {
    function extsload(bytes32 slot) external view returns (bytes32);
}

/// Reads the initialised ticks around the prices of Uniswap v4 pools in one eth_call without a target: the constructor
/// runs at the block, and returns its findings in place of a contract's code. Storage layout: v4-core's Pool.State.
contract TickReader {
    struct Wanted {
        bytes32 id;
        int24 spacing;
    }

    /// @param reach ticks on each side of the price up to which the bitmap is read at least
    /// @param most ticks on each side
    /// Returns uint256[][]: for each pool first the ticks above its price, ascending, then the others, descending. A
    /// tick is its number shifted by 128 bits, or-ed with its net liquidity's 128 bits.
    constructor(PoolManager manager, Wanted[] memory pools, int256 reach, uint256 most) {
        uint256[][] memory found = new uint256[][](pools.length);
        for (uint256 i = 0; i < pools.length; i++) found[i] = ticksOf(manager, pools[i], reach, most);
        bytes memory told = abi.encode(found);
        assembly {
            return(add(told, 32), mload(told))
        }
    }

    function ticksOf(PoolManager manager, Wanted memory pool, int256 reach, uint256 most)
        private
        view
        returns (uint256[] memory ticks)
    {
        uint256 base = uint256(keccak256(abi.encode(pool.id, uint256(6))));
        int256 tick = int24(uint24(uint256(manager.extsload(bytes32(base))) >> 160));
        int256 spacing = pool.spacing;
        int256 place = tick / spacing;
        if (tick < 0 && tick % spacing != 0) place--;
        ticks = new uint256[](2 * most);
        int256 bitmaps = reach / (256 * spacing) + 1;
        uint256 count = 0;
        for (int256 side = 1; side >= -1; side -= 2) {
            uint256 end = count + most;
            for (int256 i = 0; i <= bitmaps && count < end; i++) {
                int256 word = (place >> 8) + side * i;
                uint256 bits = uint256(manager.extsload(keccak256(abi.encode(word, base + 5))));
                while (bits != 0 && count < end) {
                    // The lowest bit of words above the price, the highest of the others.
                    uint256 bit = highestBit(side > 0 ? bits & (~bits + 1) : bits);
                    bits ^= 1 << bit;
                    int256 step = word * 256 + int256(bit);
                    if ((step > place) != (side > 0)) continue;
                    uint256 info = uint256(manager.extsload(keccak256(abi.encode(step * spacing, base + 4))));
                    ticks[count++] = (uint256(step * spacing) << 128) | (info >> 128);
                }
            }
        }
        assembly {
            mstore(ticks, count)
        }
    }

    function highestBit(uint256 bits) private pure returns (uint256 place) {
        for (uint256 half = 128; half > 0; half >>= 1) {
            if (bits >> half == 0) continue;
            bits >>= half;
            place += half;
        }
    }
}
