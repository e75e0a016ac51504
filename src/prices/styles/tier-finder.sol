// SPDX-License-Identifier: MIT
pragma solidity ^0.8.26;

/// Reads which fees or tick spacings a factory has now, and finds pools at those that its caller doesn't know, in one
/// eth_call without a target: the constructor runs at the block, and returns its findings in place of a contract's code.
/// Slipstream has a list of its spacings. Uniswap v3 and its forks have none, so likely fees are tried: every one below
/// 0.1 %, then ever coarser steps.
contract TierFinder {
    struct Pair {
        address token0;
        address token1;
    }

    struct Found {
        uint256 pair;
        uint256 tier;
        address pool;
    }

    /// A factory reads one slot, through a proxy perhaps. One that nobody vouches for must not take more.
    uint256 private constant GAS = 12_000;
    uint256 private constant GAS_OF_LIST = 200_000;
    /// Pools that are returned: with the tiers less than nodes allow a contract's code.
    uint256 private constant MOST_FOUND = 200;

    /// @param isBySpacing true for Slipstream
    /// @param most tiers that count: of fees the lowest ones
    /// @param known tiers at which the caller finds the pools itself
    /// Returns the number of the block, the tiers, and the pools at the others. Reverts for a contract that isn't such a
    /// factory.
    constructor(bool isBySpacing, address factory, uint256 most, uint256[] memory known, Pair[] memory pairs) {
        uint256[] memory tiers = isBySpacing ? spacingsOf(factory, most) : feesOf(factory, most);
        Found[] memory found = new Found[](MOST_FOUND);
        uint256 count = 0;
        bytes4 getter = bytes4(keccak256(bytes(isBySpacing ? "getPool(address,address,int24)" : "getPool(address,address,uint24)")));
        for (uint256 i = 0; i < tiers.length; i++) {
            if (isAmong(known, tiers[i])) continue;
            for (uint256 j = 0; j < pairs.length && count < MOST_FOUND; j++) {
                (bool isOk, bytes memory said) =
                    factory.staticcall{gas: GAS}(abi.encodeWithSelector(getter, pairs[j].token0, pairs[j].token1, tiers[i]));
                address pool = isOk && said.length == 32 ? address(uint160(uint256(bytes32(said)))) : address(0);
                if (pool != address(0)) found[count++] = Found(j, tiers[i], pool);
            }
        }
        assembly {
            mstore(found, count)
        }
        bytes memory told = abi.encode(blockNumber(), tiers, found);
        assembly {
            return(add(told, 32), mload(told))
        }
    }

    function feesOf(address factory, uint256 most) private view returns (uint256[] memory fees) {
        fees = new uint256[](most);
        uint256 count = 0;
        uint256 fee = 1;
        bytes4 getter = bytes4(keccak256("feeAmountTickSpacing(uint24)"));
        while (fee < 1_000_000 && count < most) {
            bool isOk;
            uint256 spacing;
            assembly {
                mstore(0, getter)
                mstore(4, fee)
                isOk := staticcall(GAS, factory, 0, 36, 0, 32)
                isOk := and(isOk, gt(returndatasize(), 31))
                spacing := mload(0)
            }
            require(isOk);
            if (spacing != 0) fees[count++] = fee;
            fee += fee < 1_000 ? 1 : fee < 10_000 ? 50 : fee < 100_000 ? 500 : 10_000;
        }
        assembly {
            mstore(fees, count)
        }
    }

    function spacingsOf(address factory, uint256 most) private view returns (uint256[] memory spacings) {
        (bool isOk, bytes memory said) = factory.staticcall{gas: GAS_OF_LIST}(abi.encodeWithSignature("tickSpacings()"));
        require(isOk && said.length >= 64);
        spacings = abi.decode(said, (uint256[]));
        if (spacings.length > most) {
            assembly {
                mstore(spacings, most)
            }
        }
    }

    function isAmong(uint256[] memory all, uint256 one) private pure returns (bool) {
        for (uint256 i = 0; i < all.length; i++) if (all[i] == one) return true;
        return false;
    }

    /// On Arbitrum `block.number` is L1's, and this contract has the chain's own. No other chain's answers like it.
    function blockNumber() private view returns (uint256) {
        address arbSys = address(0x64);
        (bool isOk, bytes memory said) = arbSys.staticcall{gas: 150_000}(abi.encodeWithSignature("arbBlockNumber()"));
        return isOk && said.length == 32 ? abi.decode(said, (uint256)) : block.number;
    }
}
