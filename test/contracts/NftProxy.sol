// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {ERC1967Proxy} from "@openzeppelin/contracts/proxy/ERC1967/ERC1967Proxy.sol";
import {ERC721} from "@openzeppelin/contracts/token/ERC721/ERC721.sol";

/// A proxy in front of an ERC-721. The code at its address doesn't show the standard.
contract NftProxy is ERC1967Proxy {
    constructor(address implementation, bytes memory call_) ERC1967Proxy(implementation, call_) {}
}

/// The implementation behind the proxy. The proxy's storage holds its name, and `initialize` sets it once.
contract ProxiedNft is ERC721 {
    string private proxiedName;
    string private proxiedSymbol;

    constructor() ERC721("", "") {}

    function initialize(string calldata name_, string calldata symbol_) external {
        require(bytes(proxiedName).length == 0, "initialized");
        proxiedName = name_;
        proxiedSymbol = symbol_;
    }

    function mint(address to, uint256 id) external {
        _mint(to, id);
    }

    function burn(uint256 id) external {
        _burn(id);
    }

    function name() public view override returns (string memory) {
        return proxiedName;
    }

    function symbol() public view override returns (string memory) {
        return proxiedSymbol;
    }
}
