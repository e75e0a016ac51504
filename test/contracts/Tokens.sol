// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// The balances of an ERC-20 in which any account may mint. It has no name and no symbol.
abstract contract Ledger {
    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    uint256 public totalSupply;
    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;

    function mint(address to, uint256 value) external {
        totalSupply += value;
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    function burn(uint256 value) external {
        balanceOf[msg.sender] -= value;
        totalSupply -= value;
        emit Transfer(msg.sender, address(0), value);
    }

    function approve(address spender, uint256 value) external virtual returns (bool) {
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    function transfer(address to, uint256 value) external virtual returns (bool) {
        move(msg.sender, to, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external virtual returns (bool) {
        allowance[from][msg.sender] -= value;
        move(from, to, value);
        return true;
    }

    function move(address from, address to, uint256 value) internal virtual {
        balanceOf[from] -= value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }
}

/// An ordinary ERC-20. It keeps everything in storage, so its runtime code works at any address after a call of `init`.
contract TestToken is Ledger {
    string public name;
    string public symbol;
    uint8 public decimals;
    bool private initialized;

    constructor(string memory name_, string memory symbol_, uint8 decimals_) {
        init(name_, symbol_, decimals_);
    }

    function init(string memory name_, string memory symbol_, uint8 decimals_) public {
        require(!initialized, "initialized");
        initialized = true;
        name = name_;
        symbol = symbol_;
        decimals = decimals_;
    }
}

/// An ERC-20 with name and symbol as bytes32, like MKR.
contract Bytes32Token is Ledger {
    bytes32 public name;
    bytes32 public symbol;
    uint8 public constant decimals = 18;

    constructor(bytes32 name_, bytes32 symbol_) {
        name = name_;
        symbol = symbol_;
    }
}

/// An ERC-20 without decimals().
contract NoDecimalsToken is Ledger {
    string public constant name = "No Decimals";
    string public constant symbol = "NODEC";
}

/// Keeps `feeBps` ten-thousandths of each transfer, so the receiver gets less than was sent.
contract FeeToken is Ledger {
    string public name;
    string public symbol;
    uint8 public constant decimals = 18;
    uint256 public feeBps;

    constructor(string memory name_, string memory symbol_, uint256 feeBps_) {
        name = name_;
        symbol = symbol_;
        feeBps = feeBps_;
    }

    function move(address from, address to, uint256 value) internal override {
        uint256 fee = (value * feeBps) / 10000;
        if (fee != 0) super.move(from, address(this), fee);
        super.move(from, to, value - fee);
    }
}

/// A share of a vault as ERC-4626 has it, as far as its price of redemption: one share is worth `rate` / 1e18 assets.
contract TestVault is TestToken {
    address public asset;
    uint256 private rate;

    constructor(address asset_, uint256 rate_, uint8 decimals_) TestToken("Vault", "VLT", decimals_) {
        asset = asset_;
        rate = rate_;
    }

    /// Refuses more shares than there can be, as a vault with small numbers does.
    function convertToAssets(uint256 shares) external view returns (uint256) {
        require(shares <= 1e9 * 10 ** uint256(decimals), "too many shares");
        return (shares * rate) / 1e18;
    }
}

/// What tokens are truly worth, for a market whose prices are compared with it: dollars times 1e18 for a whole token.
contract TruthOracle {
    mapping(address => uint256) public priceOf;

    function set(address token, uint256 price) external {
        priceOf[token] = price;
    }
}
