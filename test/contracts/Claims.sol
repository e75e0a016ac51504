// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {ERC6909ContentURI} from "@openzeppelin/contracts/token/ERC6909/extensions/ERC6909ContentURI.sol";

/// An OpenZeppelin ERC-6909 with metadata. It has no name, like all of them.
contract Claims is ERC6909ContentURI {
    function mint(address to, uint256 id, uint256 amount) external {
        _mint(to, id, amount);
    }

    function burn(address from, uint256 id, uint256 amount) external {
        _burn(from, id, amount);
    }

    function setContractURI(string calldata uri) external {
        _setContractURI(uri);
    }

    function setTokenURI(uint256 id, string calldata uri) external {
        _setTokenURI(id, uri);
    }
}

/// The same contract without ERC-165: only its events tell its kind.
contract SilentClaims is Claims {
    function supportsInterface(bytes4) public pure override returns (bool) {
        revert("no ERC-165");
    }
}
