// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {Ownership} from "./OddNfts.sol";

/// Events of the ERC-821 drafts: after from, to and id come the operator and the data of user and operator.
abstract contract Erc821 is Ownership {
    event Transfer(
        address indexed from,
        address indexed to,
        uint256 indexed assetId,
        address operator,
        bytes userData,
        bytes operatorData
    );
    event Create(address indexed holder, uint256 indexed assetId, address indexed operator, string data);
    event Destroy(address indexed holder, uint256 indexed assetId, address indexed operator);

    function announce(address from, address to, uint256 id) internal virtual override {
        // A mint carries the description of the asset, a transfer carries no data.
        emit Transfer(from, to, id, msg.sender, from == address(0) ? bytes("0,\"a parcel of land\",\"\"") : bytes(""), "");
    }

    /// Announces as the earliest logic did, with separate events for mints and burns.
    function announceCreation(address from, address to, uint256 id) internal {
        if (from == address(0)) emit Create(to, id, msg.sender, "0,\"a parcel of land\",\"\"");
        else if (to == address(0)) emit Destroy(from, id, msg.sender);
        else emit Transfer(from, to, id, msg.sender, "", "");
    }
}

/// A registry of the first draft, which is older than ERC-165.
contract AssetRegistry is Erc821 {
    string public constant name = "Asset Registry";
    string public constant symbol = "AST";
}

contract CreatingRegistry is Erc821 {
    string public constant name = "Creating Registry";
    string public constant symbol = "CRT";

    function announce(address from, address to, uint256 id) internal override {
        announceCreation(from, to, id);
    }
}

/// Decentraland's LAND: one address with logic that was replaced twice. Each logic announces transfers in its own way.
contract Land is Erc821 {
    event Transfer(address indexed from, address indexed to, uint256 indexed assetId, address operator, bytes userData);
    event Transfer(address indexed from, address indexed to, uint256 indexed assetId);

    string public constant name = "Decentraland LAND";
    string public constant symbol = "LAND";
    uint256 public constant decimals = 0;
    /// 0 and 1: the two drafts. 2: ERC-721. 3: ERC-721 and the second draft together, which LAND never did. 4: the
    /// earliest.
    uint256 public logic;

    function upgrade(uint256 to) external {
        logic = to;
    }

    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0x7c0633c6 || id == 0x80ac58cd;
    }

    function announce(address from, address to, uint256 id) internal override {
        if (logic == 0) super.announce(from, to, id);
        if (logic == 4) announceCreation(from, to, id);
        if (logic == 1 || logic == 3) emit Transfer(from, to, id, msg.sender, "");
        if (logic == 2 || logic == 3) emit Transfer(from, to, id);
    }
}
