// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {ERC1967Proxy} from "@openzeppelin/contracts/proxy/ERC1967/ERC1967Proxy.sol";
import {Ledger} from "./Tokens.sol";

/// Reports decimals that no token can have.
contract AbsurdDecimalsToken is Ledger {
    string public constant name = "Absurd";
    string public constant symbol = "ABS";
    uint256 public immutable decimals;

    constructor(uint256 decimals_) {
        decimals = decimals_;
    }
}

/// An ERC-404: fungible units, and a contract that says it is one of NFTs.
contract HybridToken is Ledger {
    string public constant name = "Hybrid";
    string public constant symbol = "HYB";
    uint8 public constant decimals = 18;

    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0x80ac58cd;
    }
}

/// Has decimals(), but the call reverts.
contract MuteDecimalsToken is Ledger {
    string public constant name = "Mute";
    string public constant symbol = "MUTE";

    function decimals() external pure returns (uint8) {
        revert("not today");
    }
}

/// A token that can scale down all balances at once, without an event.
contract RebasingToken {
    event Transfer(address indexed from, address indexed to, uint256 value);

    string public constant name = "Rebasing";
    string public constant symbol = "REB";
    uint8 public constant decimals = 18;
    uint256 public percent = 100;
    uint256 private shares;
    mapping(address => uint256) private sharesOf;

    function mint(address to, uint256 value) external {
        shares += value;
        sharesOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    function rebase(uint256 percent_) external {
        percent = percent_;
    }

    function totalSupply() external view returns (uint256) {
        return (shares * percent) / 100;
    }

    function balanceOf(address owner) external view returns (uint256) {
        return (sharesOf[owner] * percent) / 100;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        sharesOf[msg.sender] -= (value * 100) / percent;
        sharesOf[to] += (value * 100) / percent;
        emit Transfer(msg.sender, to, value);
        return true;
    }
}

/// A price feed: it has decimals and a description, but it is not a token.
contract PriceFeed {
    uint8 public constant decimals = 8;
    string public constant description = "TKN / USD";
}

/// A token behind a proxy. The constructor's call sets it up.
contract TokenProxy is ERC1967Proxy {
    constructor(address implementation, bytes memory call_) ERC1967Proxy(implementation, call_) {}
}

/// Says of itself what its owner wants, as a token behind a proxy may after an upgrade.
contract UpgradedToken is Ledger {
    string public name;
    string public symbol;
    uint8 public decimals;

    constructor(string memory name_, string memory symbol_, uint8 decimals_) {
        upgrade(name_, symbol_, decimals_);
    }

    function upgrade(string memory name_, string memory symbol_, uint8 decimals_) public {
        name = name_;
        symbol = symbol_;
        decimals = decimals_;
    }
}

/// Its symbol() uses up all gas that the caller gives it.
contract GreedyToken is Ledger {
    string public constant name = "Greedy";
    uint8 public constant decimals = 18;

    function symbol() external pure returns (string memory) {
        assembly {
            invalid()
        }
    }
}
