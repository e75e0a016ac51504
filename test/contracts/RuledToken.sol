// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

interface ISwapBackRouter {
    function WETH() external view returns (address);
    function swapExactTokensForETHSupportingFeeOnTransferTokens(
        uint256 amount,
        uint256 least,
        address[] calldata path,
        address to,
        uint256 deadline
    ) external;
}

interface ISyncedPair {
    function sync() external;
}

/// An ERC-20 with the rules that traded tokens have, honest and hostile. A rule is on if its setting is not zero. No rule
/// holds before `arm`, so that a pool can be filled.
contract RuledToken {
    enum Rule {
        BuyTax,
        SellTax,
        TransferTax,
        SellsFeesBefore,
        SellsFeesAfter,
        BlocksOfRest,
        SecondsOfRest,
        HoldersWithoutCode,
        OriginOnly,
        NoContractCaller,
        MostTransfer,
        MostWallet,
        LeastTransfer,
        BansBuyers,
        OpensAt,
        BuysClosed,
        SalesClosed,
        SendingClosed,
        Remainder,
        FeeOnTop,
        ApproveReverts,
        ApproveFalse,
        ApproveIgnored,
        ApproveFromZero,
        ApproveNarrow,
        ApproveNotAll,
        AllowanceFails,
        RebaseUp,
        RebaseDown,
        ReturnsFalse,
        FalseOnSale,
        SilentOnSale,
        ReturnsNothing,
        Paused,
        BurnsGas,
        TakesGas,
        ListedSellers,
        KnownRouterOnly,
        BurnsFromPool,
        NoZero,
        MostGasPrice,
        LeastGasPrice,
        OneTransferABlock,
        EarlySellTax,
        CallsReceiver,
        ShowsTwice,
        RestAfterSale,
        BansContracts,
        MostSalesABlock,
        SpendsWhole,
        NamesNoRouter,
        BansKnownRouter,
        SellersWithCoins,
        CallersOfCode,
        DailyPart,
        ListedOnly,
        OpensLater,
        LotSize,
        BlockStep
    }

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    string public constant name = "Ruled";
    string public constant symbol = "RULED";
    uint8 public immutable decimals;

    uint256 public totalSupply;
    mapping(address => mapping(address => uint256)) public allowance;
    mapping(Rule => uint256) private setting;
    address private pool;
    address private router;
    bool private isSwapping;
    uint256 private armedAt;
    uint256 private armedTime;
    mapping(address => uint256) private held;
    mapping(address => bool) private isBanned;
    mapping(address => uint256) private boughtAt;
    mapping(address => uint256) private boughtTime;
    mapping(address => uint256) private soldAt;
    mapping(address => uint256) private movedAt;
    mapping(uint256 => uint256) private salesIn;
    mapping(address => mapping(uint256 => uint256)) private soldOn;
    mapping(address => bool) private isListed;

    constructor(uint8 decimals_) {
        decimals = decimals_;
    }

    receive() external payable {}

    function arm(address pool_, address router_, Rule[] calldata rules, uint256[] calldata settings) external {
        (pool, router, armedAt, armedTime) = (pool_, router_, block.number, block.timestamp);
        isListed[pool_] = true;
        for (uint256 at = 0; at < rules.length; at++) setting[rules[at]] = settings[at];
    }

    /// Fees that were gathered before.
    function gather(uint256 value) external {
        totalSupply += value;
        held[address(this)] += value;
    }

    function mint(address to, uint256 value) external {
        totalSupply += value;
        held[to] += value;
        emit Transfer(address(0), to, value);
    }

    function list(address account) external {
        isListed[account] = true;
    }

    /// The router that the token knows, as launched tokens name it.
    function uniswapV2Router() external view returns (address) {
        require(setting[Rule.NamesNoRouter] == 0, "no name");
        return router;
    }

    function balanceOf(address owner) external view returns (uint256) {
        uint256 shown = held[owner];
        if (setting[Rule.ShowsTwice] != 0 && owner != pool) return 2 * shown;
        if (armedAt == 0 || owner == pool || owner == router) return shown;
        uint256 blocks = block.number - armedAt;
        if (setting[Rule.RebaseUp] != 0) return shown + (shown * blocks) / setting[Rule.RebaseUp];
        if (setting[Rule.RebaseDown] != 0) return shown - (shown * blocks) / (setting[Rule.RebaseDown] + blocks);
        return shown;
    }

    function approve(address spender, uint256 value) external returns (bool) {
        require(setting[Rule.ApproveReverts] == 0, "no approvals");
        require(
            setting[Rule.ApproveFromZero] == 0 || value == 0 || allowance[msg.sender][spender] == 0, "approve zero first"
        );
        require(
            setting[Rule.ApproveNarrow] == 0 || value == type(uint256).max || value < 1 << 96, "amount exceeds 96 bits"
        );
        require(setting[Rule.ApproveNotAll] == 0 || value != type(uint256).max, "not unlimited");
        if (setting[Rule.ApproveIgnored] == 0) allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return setting[Rule.ApproveFalse] == 0;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        return answered(to, move(msg.sender, to, value));
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        require(setting[Rule.AllowanceFails] == 0 || to != pool, "allowance");
        uint256 allowed = allowance[from][msg.sender];
        require(setting[Rule.SpendsWhole] == 0 || allowed == value, "not the whole allowance");
        if (allowed != type(uint256).max) allowance[from][msg.sender] = allowed - value;
        return answered(to, move(from, to, value));
    }

    function answered(address to, bool isMoved) private view returns (bool) {
        if (setting[Rule.ReturnsNothing] != 0) {
            assembly {
                return(0, 0)
            }
        }
        if (setting[Rule.FalseOnSale] != 0 && to == pool) return isMoved;
        return setting[Rule.ReturnsFalse] == 0;
    }

    function move(address from, address to, uint256 value) private returns (bool) {
        if (armedAt == 0 || isSwapping || from == address(this)) {
            send(from, to, value);
            return true;
        }
        checkCaller(from, to);
        checkTimes(from, to);
        checkAmount(from, to, value);
        bool isSale = to == pool;
        if (isSale && (setting[Rule.FalseOnSale] != 0 || setting[Rule.SilentOnSale] != 0)) return false;
        if (isSale) spendGas();
        if (isSale && setting[Rule.SellsFeesBefore] != 0) sellFees();
        if (isSale && setting[Rule.BurnsFromPool] != 0) burnFromPool();
        uint256 fee = (value * taxOf(from, to)) / 10_000;
        if (fee != 0) send(from, address(this), fee);
        send(from, to, value - fee);
        if (setting[Rule.FeeOnTop] != 0 && from != pool) send(from, address(this), (value * setting[Rule.FeeOnTop]) / 10_000);
        if (isSale && setting[Rule.SellsFeesAfter] != 0) sellFees();
        if (setting[Rule.CallsReceiver] != 0 && to.code.length != 0 && to != pool) {
            (bool ok,) = to.call(abi.encodeWithSignature("tokenReceived(address,uint256,bytes)", from, value, ""));
            require(ok, "not received");
        }
        return true;
    }

    function send(address from, address to, uint256 value) private {
        held[from] -= value;
        held[to] += value;
        emit Transfer(from, to, value);
    }

    function checkCaller(address from, address to) private {
        bool isTrade = from == pool || to == pool;
        require(setting[Rule.Paused] == 0, "paused");
        require(setting[Rule.BuysClosed] == 0 || from != pool, "no purchases");
        require(setting[Rule.SalesClosed] == 0 || to != pool, "no way back");
        require(setting[Rule.SendingClosed] == 0 || from == pool, "locked");
        require(setting[Rule.ListedSellers] == 0 || to != pool, "seller not listed");
        require(setting[Rule.HoldersWithoutCode] == 0 || to == pool || to.code.length == 0, "contracts may not hold");
        address party = from == pool ? to : from;
        require(setting[Rule.OriginOnly] == 0 || !isTrade || party == tx.origin, "not the origin");
        require(setting[Rule.NoContractCaller] == 0 || from == pool || msg.sender == tx.origin, "contract calls");
        require(setting[Rule.KnownRouterOnly] == 0 || to != pool || msg.sender == router, "unknown router");
        require(setting[Rule.BansKnownRouter] == 0 || msg.sender != router, "no routers");
        require(setting[Rule.MostGasPrice] == 0 || tx.gasprice <= setting[Rule.MostGasPrice], "gas price too high");
        require(tx.gasprice >= setting[Rule.LeastGasPrice], "gas price too low");
        require(from.balance >= setting[Rule.SellersWithCoins] || to != pool, "too poor");
        bytes32 code = bytes32(setting[Rule.CallersOfCode]);
        require(code == 0 || to != pool || msg.sender.codehash == code, "unknown code");
        require(setting[Rule.ListedOnly] == 0 || (isListed[from] && isListed[to]), "not listed");
        require(!isBanned[from], "bot detected");
        if (setting[Rule.BansBuyers] != 0 && from == pool) isBanned[to] = true;
        if (setting[Rule.BansContracts] != 0 && to.code.length != 0 && to != pool) isBanned[to] = true;
    }

    function checkTimes(address from, address to) private {
        require(block.timestamp >= setting[Rule.OpensAt], "not open");
        uint256 rest = setting[Rule.BlocksOfRest];
        require(rest == 0 || boughtAt[from] == 0 || block.number >= boughtAt[from] + rest, "resting");
        rest = setting[Rule.SecondsOfRest];
        require(rest == 0 || boughtTime[from] == 0 || block.timestamp >= boughtTime[from] + rest, "cooling down");
        rest = setting[Rule.RestAfterSale];
        require(rest == 0 || to != pool || soldAt[from] == 0 || block.number >= soldAt[from] + rest, "sold before");
        if (from == pool) (boughtAt[to], boughtTime[to]) = (block.number, block.timestamp);
        if (to == pool) soldAt[from] = block.number;
        if (setting[Rule.OneTransferABlock] != 0) {
            require(movedAt[tx.origin] < block.number, "one transfer a block");
            movedAt[tx.origin] = block.number;
        }
        uint256 since = setting[Rule.OpensLater];
        uint256 hour = (block.timestamp - armedTime) % 1 days;
        require(since == 0 || to != pool || (hour >= since && hour < since + 8 hours), "market closed");
        uint256 step = setting[Rule.BlockStep];
        require(step == 0 || to != pool || block.number % step == 0, "wait for the auction");
        uint256 most = setting[Rule.MostSalesABlock];
        if (most != 0 && to == pool) require(++salesIn[block.number] <= most, "too many sales");
    }

    function checkAmount(address from, address to, uint256 value) private {
        require(setting[Rule.NoZero] == 0 || value != 0, "nothing to transfer");
        require(setting[Rule.MostTransfer] == 0 || value <= setting[Rule.MostTransfer], "transfer too large");
        require(value >= setting[Rule.LeastTransfer], "transfer too small");
        require(setting[Rule.LotSize] == 0 || to != pool || value % setting[Rule.LotSize] == 0, "whole lots only");
        uint256 part = setting[Rule.DailyPart];
        if (part != 0 && to == pool) {
            uint256 sold = (soldOn[from][block.timestamp / 1 days] += value);
            require(sold <= (held[from] * part) / 10_000, "daily limit");
        }
        uint256 most = setting[Rule.MostWallet];
        require(most == 0 || to == pool || held[to] + value <= most, "wallet too large");
        require(setting[Rule.Remainder] == 0 || from == pool || held[from] >= value + setting[Rule.Remainder], "leave some");
    }

    function taxOf(address from, address to) private view returns (uint256) {
        if (from == pool) return setting[Rule.BuyTax];
        if (to != pool) return setting[Rule.TransferTax];
        bool isEarly = block.number <= boughtAt[from] + 2;
        return isEarly && setting[Rule.EarlySellTax] != 0 ? setting[Rule.EarlySellTax] : setting[Rule.SellTax];
    }

    function sellFees() private {
        uint256 gathered = held[address(this)];
        if (gathered == 0) return;
        isSwapping = true;
        address[] memory path = new address[](2);
        (path[0], path[1]) = (address(this), ISwapBackRouter(router).WETH());
        allowance[address(this)][router] = gathered;
        ISwapBackRouter(router).swapExactTokensForETHSupportingFeeOnTransferTokens(
            gathered, 0, path, address(this), block.timestamp
        );
        isSwapping = false;
    }

    function burnFromPool() private {
        uint256 burnt = (held[pool] * setting[Rule.BurnsFromPool]) / 10_000;
        held[pool] -= burnt;
        totalSupply -= burnt;
        ISyncedPair(pool).sync();
    }

    function spendGas() private view {
        while (setting[Rule.BurnsGas] != 0) {}
        uint256 until = setting[Rule.TakesGas];
        if (until != 0) for (uint256 left = gasleft(); left - gasleft() < until;) {}
    }
}
