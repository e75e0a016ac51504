// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {ERC1967Proxy} from "@openzeppelin/contracts/proxy/ERC1967/ERC1967Proxy.sol";
import {Clones} from "@openzeppelin/contracts/proxy/Clones.sol";
import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {ERC1363} from "@openzeppelin/contracts/token/ERC20/extensions/ERC1363.sol";
import {ERC20Burnable} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Burnable.sol";
import {ERC20Capped} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Capped.sol";
import {ERC20FlashMint} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20FlashMint.sol";
import {ERC20Pausable} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Pausable.sol";
import {ERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Permit.sol";
import {ERC20Votes} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Votes.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {Ledger} from "./Tokens.sol";

/// Tokens that nobody should be warned of. Each has the decimals that its constructor takes, and a `mint` for tests.
abstract contract OpenToken is ERC20 {
    uint8 private immutable places;

    constructor(uint8 places_) ERC20("Ordinary", "ORD") {
        places = places_;
    }

    function decimals() public view virtual override returns (uint8) {
        return places;
    }

    function mint(address to, uint256 value) external virtual {
        _mint(to, value);
    }
}

contract OrdinaryPlain is OpenToken {
    constructor(uint8 places) OpenToken(places) {}
}

contract OrdinaryBurnable is OpenToken, ERC20Burnable {
    constructor(uint8 places) OpenToken(places) {}

    function decimals() public view override(ERC20, OpenToken) returns (uint8) {
        return super.decimals();
    }
}

contract OrdinaryCapped is OpenToken, ERC20Capped {
    constructor(uint8 places) OpenToken(places) ERC20Capped(type(uint224).max) {}

    function decimals() public view override(ERC20, OpenToken) returns (uint8) {
        return super.decimals();
    }

    function _update(address from, address to, uint256 value) internal override(ERC20, ERC20Capped) {
        super._update(from, to, value);
    }
}

contract OrdinaryFlashMint is OpenToken, ERC20FlashMint {
    constructor(uint8 places) OpenToken(places) {}

    function decimals() public view override(ERC20, OpenToken) returns (uint8) {
        return super.decimals();
    }
}

contract OrdinaryPausable is OpenToken, ERC20Pausable {
    constructor(uint8 places) OpenToken(places) {}

    function decimals() public view override(ERC20, OpenToken) returns (uint8) {
        return super.decimals();
    }

    function _update(address from, address to, uint256 value) internal override(ERC20, ERC20Pausable) {
        super._update(from, to, value);
    }
}

contract OrdinaryPermit is OpenToken, ERC20Permit {
    constructor(uint8 places) OpenToken(places) ERC20Permit("Ordinary") {}

    function decimals() public view override(ERC20, OpenToken) returns (uint8) {
        return super.decimals();
    }
}

/// Writes checkpoints on each transfer.
contract OrdinaryVotes is OpenToken, ERC20Votes {
    constructor(uint8 places) OpenToken(places) EIP712("Ordinary", "1") {}

    function decimals() public view override(ERC20, OpenToken) returns (uint8) {
        return super.decimals();
    }

    function _update(address from, address to, uint256 value) internal override(ERC20, ERC20Votes) {
        super._update(from, to, value);
    }

    function _maxSupply() internal pure override returns (uint256) {
        return type(uint208).max;
    }
}

contract OrdinaryPayable is OpenToken, ERC1363 {
    constructor(uint8 places) OpenToken(places) {}

    function decimals() public view override(ERC20, OpenToken) returns (uint8) {
        return super.decimals();
    }
}

/// Balances are shares of a pot that grew, as those of staked coins: each transfer loses a unit to rounding.
contract OrdinaryShares {
    string public constant name = "Shares";
    string public constant symbol = "SHR";
    uint8 public immutable decimals;
    mapping(address => uint256) private shares;
    mapping(address => mapping(address => uint256)) public allowance;
    uint256 private allShares = 1000;
    uint256 private pot = 1237;

    event Transfer(address indexed from, address indexed to, uint256 value);

    constructor(uint8 places) {
        decimals = places;
    }

    function totalSupply() external view returns (uint256) {
        return pot;
    }

    function balanceOf(address account) external view returns (uint256) {
        return Math.mulDiv(shares[account], pot, allShares);
    }

    function mint(address to, uint256 value) external {
        uint256 more = Math.mulDiv(value, allShares, pot);
        shares[to] += more;
        allShares += more;
        pot += value;
        emit Transfer(address(0), to, value);
    }

    function approve(address spender, uint256 value) external returns (bool) {
        allowance[msg.sender][spender] = value;
        return true;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        return move(msg.sender, to, value);
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        allowance[from][msg.sender] -= value;
        return move(from, to, value);
    }

    function move(address from, address to, uint256 value) private returns (bool) {
        uint256 part = Math.mulDiv(value, allShares, pot);
        shares[from] -= part;
        shares[to] += part;
        emit Transfer(from, to, value);
        return true;
    }
}

abstract contract OwnLedger is Ledger {
    string public constant name = "Ordinary";
    string public constant symbol = "ORD";
    uint8 public immutable decimals;

    constructor(uint8 places) {
        decimals = places;
    }
}

/// Refuses transfers of more than a hundredth of the supply once it trades.
contract OrdinaryLimited is OwnLedger {
    constructor(uint8 places) OwnLedger(places) {}

    function move(address from, address to, uint256 value) internal override {
        require(value <= totalSupply / 100 || to.code.length > 0, "over the limit");
        super.move(from, to, value);
    }
}

/// Has a list of blocked accounts, on which the traders are not, like USDC.
contract OrdinaryBlocking is OwnLedger {
    mapping(address => bool) public isBlocked;

    constructor(uint8 places) OwnLedger(places) {}

    function block_(address account) external {
        isBlocked[account] = true;
    }

    function move(address from, address to, uint256 value) internal override {
        require(!isBlocked[from] && !isBlocked[to], "blocked");
        super.move(from, to, value);
    }
}

/// Records holders on each transfer, for dividends.
contract OrdinaryRecording is OwnLedger {
    address[] public holders;
    mapping(address => bool) private isKnown;

    constructor(uint8 places) OwnLedger(places) {}

    function move(address from, address to, uint256 value) internal override {
        super.move(from, to, value);
        if (isKnown[to]) return;
        isKnown[to] = true;
        holders.push(to);
    }
}

/// The code behind proxies. Its decimals are set once.
contract OrdinaryLogic is Ledger {
    string public constant name = "Ordinary";
    string public constant symbol = "ORD";
    uint8 public decimals;

    function initialize(uint8 places) external {
        require(decimals == 0, "set already");
        decimals = places;
    }
}

contract OrdinaryProxy is ERC1967Proxy {
    constructor(uint8 places)
        ERC1967Proxy(address(new OrdinaryLogic()), abi.encodeCall(OrdinaryLogic.initialize, (places)))
    {}
}

/// Makes minimal clones (EIP-1167).
contract OrdinaryCloner {
    address public immutable clone;

    constructor(uint8 places) {
        clone = Clones.clone(address(new OrdinaryLogic()));
        OrdinaryLogic(clone).initialize(places);
    }
}
