// SPDX-License-Identifier: MIT
pragma solidity ^0.8.26;

import "./Tokens.sol";

struct PoolKey {
    address currency0;
    address currency1;
    uint24 fee;
    int24 tickSpacing;
    address hooks;
}

struct SwapParams {
    bool zeroForOne;
    int256 amountSpecified;
    uint160 sqrtPriceLimitX96;
}

struct ModifyLiquidityParams {
    int24 tickLower;
    int24 tickUpper;
    int256 liquidityDelta;
    bytes32 salt;
}

interface IManager {
    function updateDynamicLPFee(PoolKey calldata key, uint24 fee) external;
    function mint(address to, uint256 id, uint256 amount) external;
    function extsload(bytes32 slot) external view returns (bytes32);
}

/// A launchpad's hook, as Clanker's are: it sets the fee before each swap, and takes a part of the paired token as a delta,
/// before a purchase of the launched token and after a sale of it.
contract LaunchHook {
    IManager public manager;
    address public launched;
    /// Millionths: the fee of the pool, and what the hook takes.
    uint24 public fee;
    uint256 public cut;
    /// True for a fee that rises with the distance from the first tick.
    bool public isDynamic;
    int24 public firstTick;
    /// The only caller; zero for any.
    address public only;
    /// A caller from whom nothing is taken.
    address public friend;
    /// The hash of the code of callers from whom nothing is taken.
    bytes32 public friendlyCode;

    error NotForYou();

    function set(IManager manager_, address launched_, uint24 fee_, uint256 cut_, bool isDynamic_) external {
        (manager, launched, fee, cut, isDynamic) = (manager_, launched_, fee_, cut_, isDynamic_);
        (only, friend, friendlyCode) = (address(0), address(0), 0);
    }

    function setOnly(address only_) external {
        only = only_;
    }

    function setFriend(address friend_) external {
        friend = friend_;
    }

    function setFriendlyCode(bytes32 hash) external {
        friendlyCode = hash;
    }

    function beforeInitialize(address, PoolKey calldata, uint160) external pure returns (bytes4) {
        return this.beforeInitialize.selector;
    }

    function beforeAddLiquidity(address, PoolKey calldata, ModifyLiquidityParams calldata, bytes calldata)
        external
        pure
        returns (bytes4)
    {
        return this.beforeAddLiquidity.selector;
    }

    function afterInitialize(address, PoolKey calldata, uint160, int24) external pure returns (bytes4) {
        return this.afterInitialize.selector;
    }

    function afterAddLiquidity(
        address,
        PoolKey calldata,
        ModifyLiquidityParams calldata,
        int256,
        int256,
        bytes calldata
    ) external pure returns (bytes4, int256) {
        return (this.afterAddLiquidity.selector, 0);
    }

    function beforeSwap(address sender, PoolKey calldata key, SwapParams calldata order, bytes calldata)
        external
        returns (bytes4, int256, uint24)
    {
        if (only != address(0) && sender != only) revert NotForYou();
        if (key.fee == 0x800000) manager.updateDynamicLPFee(key, feeNow(key));
        int256 taken = 0;
        if (!isFriend(sender) && isPurchase(key, order) && order.amountSpecified < 0) {
            taken = (-order.amountSpecified * int256(cut)) / 1e6;
            take(key, uint256(taken));
        }
        // The specified amount's delta is in the upper half.
        return (this.beforeSwap.selector, taken << 128, 0);
    }

    function afterSwap(address sender, PoolKey calldata key, SwapParams calldata order, int256 delta, bytes calldata)
        external
        returns (bytes4, int128)
    {
        int128 taken = 0;
        if (!isFriend(sender) && !isPurchase(key, order) && order.amountSpecified < 0) {
            int256 given = order.zeroForOne ? int256(int128(delta)) : delta >> 128;
            taken = int128((given * int256(cut)) / 1e6);
            take(key, uint256(int256(taken)));
        }
        return (this.afterSwap.selector, taken);
    }

    function isFriend(address sender) private view returns (bool) {
        return sender == friend || sender.codehash == friendlyCode;
    }

    function feeNow(PoolKey calldata key) private view returns (uint24) {
        if (!isDynamic) return fee;
        bytes32 slot = keccak256(abi.encode(keccak256(abi.encode(key)), uint256(6)));
        int256 tick = int24(uint24(uint256(manager.extsload(slot)) >> 160));
        uint256 far = uint256(tick > firstTick ? tick - firstTick : firstTick - tick);
        return uint24(fee + (far > 1_000 ? 1_000 : far) * 20);
    }

    function isPurchase(PoolKey calldata key, SwapParams calldata order) private view returns (bool) {
        return order.zeroForOne == (key.currency1 == launched);
    }

    function take(PoolKey calldata key, uint256 amount) private {
        if (amount == 0) return;
        manager.mint(address(this), uint160(key.currency0 == launched ? key.currency1 : key.currency0), amount);
    }
}

/// The getters of Clanker's factory and of its locker, which lead from a token to its pool.
contract LaunchFactory {
    struct DeploymentInfo {
        address token;
        address hook;
        address locker;
        address[] extensions;
    }

    mapping(address => DeploymentInfo) private infos;

    function launch(address token, address hook, address locker) external {
        infos[token] = DeploymentInfo(token, hook, locker, new address[](2));
    }

    function tokenDeploymentInfo(address token) external view returns (DeploymentInfo memory) {
        return infos[token];
    }
}

contract LaunchLocker {
    struct TokenRewardInfo {
        address token;
        PoolKey poolKey;
        uint256 positionId;
        uint256 numPositions;
        uint16[] rewardBps;
        address[] rewardAdmins;
        address[] rewardRecipients;
    }

    mapping(address => TokenRewardInfo) private infos;

    function lock(address token, PoolKey calldata key) external {
        infos[token] = TokenRewardInfo(token, key, 7, 3, new uint16[](1), new address[](1), new address[](1));
    }

    function tokenRewards(address token) external view returns (TokenRewardInfo memory) {
        return infos[token];
    }
}

/// The getters of Doppler's Airlock and of an initializer of pools.
contract LaunchAirlock {
    struct AssetData {
        address numeraire;
        address timelock;
        address governance;
        address liquidityMigrator;
        address poolInitializer;
        address pool;
        address migrationPool;
        uint256 numTokensToSell;
        uint256 totalSupply;
        address integrator;
    }

    mapping(address => AssetData) public getAssetData;

    function launch(address asset, address numeraire, address initializer) external {
        getAssetData[asset].numeraire = numeraire;
        getAssetData[asset].poolInitializer = initializer;
    }
}

contract LaunchInitializer {
    struct PoolState {
        address numeraire;
        uint8 status;
        PoolKey poolKey;
        int24 farTick;
    }

    mapping(address => PoolState) public getState;

    function create(address asset, PoolKey calldata key) external {
        getState[asset] = PoolState(key.currency0 == asset ? key.currency1 : key.currency0, 2, key, 100);
    }
}

/// A token that names its pool itself, as Zora's do.
contract NamingToken is TestToken {
    PoolKey private key;

    constructor(string memory name_, string memory symbol_, uint8 decimals_) TestToken(name_, symbol_, decimals_) {}

    function setPoolKey(PoolKey calldata key_) external {
        key = key_;
    }

    function getPoolKey() external view returns (PoolKey memory) {
        return key;
    }
}
