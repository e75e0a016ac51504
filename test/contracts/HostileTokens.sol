// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {Ledger, TestToken} from "./Tokens.sol";

/// The chain's coin as a token. Tests may mint it without paying in.
contract WrappedCoin is TestToken("Wrapped", "WCOIN", 18) {
    receive() external payable {}

    function deposit() external payable {
        totalSupply += msg.value;
        balanceOf[msg.sender] += msg.value;
    }

    function withdraw(uint256 value) external {
        totalSupply -= value;
        balanceOf[msg.sender] -= value;
        (bool ok,) = msg.sender.call{value: value}("");
        require(ok, "refused");
    }
}

/// The chain's coin that is a token itself, as Celo has it: a precompile moves the coins, and there is nothing to wrap.
contract CoinToken {
    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    address private constant MOVER = 0x00000000000000000000000000000000000000fd;
    string public constant name = "Coin";
    string public constant symbol = "COIN";
    uint8 public constant decimals = 18;

    mapping(address => mapping(address => uint256)) public allowance;

    function balanceOf(address owner) external view returns (uint256) {
        return owner.balance;
    }

    function approve(address spender, uint256 value) external returns (bool) {
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        return move(msg.sender, to, value);
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        allowance[from][msg.sender] -= value;
        return move(from, to, value);
    }

    /// Gives coins of the caller: nobody can make any.
    function mint(address to, uint256 value) external {
        move(msg.sender, to, value);
    }

    function move(address from, address to, uint256 value) private returns (bool) {
        (bool ok,) = MOVER.call(abi.encode(from, to, value));
        require(ok, "coins not moved");
        emit Transfer(from, to, value);
        return true;
    }
}

contract OpenZeppelinToken is ERC20("Open", "OPEN") {
    function mint(address to, uint256 value) external {
        _mint(to, value);
    }
}

/// A token that behaves until it is armed, so that a pool can be filled.
abstract contract ArmedToken is Ledger {
    string public constant name = "Armed";
    string public constant symbol = "ARMED";
    uint8 public constant decimals = 18;

    /// The contract that holds the pool's tokens.
    address internal pool;

    function arm(address pool_) external {
        pool = pool_;
    }

    function isArmed() internal view returns (bool) {
        return pool != address(0);
    }
}

/// Once armed, `transfer` returns nothing, like USDT's.
contract SilentToken is ArmedToken {
    function transfer(address to, uint256 value) external override returns (bool) {
        move(msg.sender, to, value);
        if (!isArmed()) return true;
        assembly {
            return(0, 0)
        }
    }
}

/// Once armed, it calls each receiver that is a contract, like ERC-223. It accepts any answer but a revert.
contract CallingToken is ArmedToken {
    function move(address from, address to, uint256 value) internal override {
        super.move(from, to, value);
        if (!isArmed() || to.code.length == 0 || to == pool) return;
        (bool ok,) = to.call(abi.encodeWithSignature("tokenReceived(address,uint256,bytes)", from, value, ""));
        require(ok, "not received");
    }
}

/// Keeps a part of each transfer. `buyBps` is the part of purchases, in ten-thousandths, `sellBps` of all others.
contract TaxedToken is ArmedToken {
    uint256 private immutable buyBps;
    uint256 private immutable sellBps;

    constructor(uint256 buyBps_, uint256 sellBps_) {
        (buyBps, sellBps) = (buyBps_, sellBps_);
    }

    function move(address from, address to, uint256 value) internal override {
        uint256 fee = isArmed() ? (value * (from == pool ? buyBps : sellBps)) / 10000 : 0;
        if (fee != 0) super.move(from, address(this), fee);
        super.move(from, to, value - fee);
    }
}

/// Lets every buyer receive, and then never send.
contract BlacklistingToken is ArmedToken {
    mapping(address => bool) private isBlocked;

    function move(address from, address to, uint256 value) internal override {
        require(!isBlocked[from], "bot detected");
        if (isArmed() && from == pool) isBlocked[to] = true;
        super.move(from, to, value);
    }
}

contract PausedToken is ArmedToken {
    function move(address from, address to, uint256 value) internal override {
        require(!isArmed(), "paused");
        super.move(from, to, value);
    }
}

contract HoneypotToken is ArmedToken {
    function move(address from, address to, uint256 value) internal override {
        require(!isArmed() || to != pool, "no way back");
        super.move(from, to, value);
    }
}

/// Burns all gas of a sale.
contract GasTrapToken is ArmedToken {
    function move(address from, address to, uint256 value) internal override {
        while (isArmed() && to == pool) {}
        super.move(from, to, value);
    }
}

/// Reverts a sale with 300,000 bytes.
contract LoudToken is ArmedToken {
    function move(address from, address to, uint256 value) internal override {
        if (isArmed() && to == pool) {
            assembly {
                revert(0, 300000)
            }
        }
        super.move(from, to, value);
    }
}

/// Refuses a sale by an answer, without a revert.
contract FalseToken is ArmedToken {
    function transfer(address to, uint256 value) external override returns (bool) {
        if (isArmed() && to == pool) return false;
        move(msg.sender, to, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external override returns (bool) {
        if (isArmed() && to == pool) return false;
        allowance[from][msg.sender] -= value;
        move(from, to, value);
        return true;
    }
}

/// Once armed, it shows every holder but the pool twice the true balance.
contract BoastfulToken {
    event Transfer(address indexed from, address indexed to, uint256 value);

    string public constant name = "Boastful";
    string public constant symbol = "BOAST";
    uint8 public constant decimals = 18;
    uint256 public totalSupply;
    mapping(address => uint256) private held;
    address private pool;

    function arm(address pool_) external {
        pool = pool_;
    }

    function balanceOf(address owner) external view returns (uint256) {
        return pool == address(0) || owner == pool ? held[owner] : 2 * held[owner];
    }

    function mint(address to, uint256 value) external {
        totalSupply += value;
        held[to] += value;
        emit Transfer(address(0), to, value);
    }

    function approve(address, uint256) external pure returns (bool) {
        return true;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        return transferFrom(msg.sender, to, value);
    }

    function transferFrom(address from, address to, uint256 value) public returns (bool) {
        held[from] -= value;
        held[to] += value;
        emit Transfer(from, to, value);
        return true;
    }
}
