// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {Clones} from "@openzeppelin/contracts/proxy/Clones.sol";
import {BeaconProxy} from "@openzeppelin/contracts/proxy/beacon/BeaconProxy.sol";
import {UpgradeableBeacon} from "@openzeppelin/contracts/proxy/beacon/UpgradeableBeacon.sol";

/// What all contracts of this file announce.
abstract contract AnnouncedNft {
    event Transfer(address indexed from, address indexed to, uint256 indexed id);

    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0x80ac58cd;
    }
}

/// A proxy whose implementation a beacon names.
contract BeaconNft is BeaconProxy {
    constructor(address beacon) BeaconProxy(beacon, "") {}
}

contract NftBeacon is UpgradeableBeacon {
    constructor(address implementation) UpgradeableBeacon(implementation, msg.sender) {}
}

/// Deploys minimal proxies (ERC-1167).
contract CloneFactory {
    event Cloned(address clone);

    function make(address implementation) external {
        emit Cloned(Clones.clone(implementation));
    }
}

/// A diamond (ERC-2535): each selector has a facet, to which the fallback delegates.
contract DiamondNft {
    mapping(bytes4 selector => address facet) private facets;

    function cut(bytes4[] calldata selectors, address facet) external {
        for (uint256 i = 0; i < selectors.length; i++) facets[selectors[i]] = facet;
    }

    fallback() external {
        address facet = facets[msg.sig];
        require(facet != address(0), "no facet");
        assembly {
            calldatacopy(0, 0, calldatasize())
            let ok := delegatecall(gas(), facet, 0, calldatasize(), 0, 0)
            returndatacopy(0, 0, returndatasize())
            switch ok
            case 0 { revert(0, returndatasize()) }
            default { return(0, returndatasize()) }
        }
    }
}

/// The facet of the tokens. Its storage has a place of its own.
contract TokenFacet is AnnouncedNft {
    struct Tokens {
        mapping(uint256 id => address) owners;
    }

    function tokens() private pure returns (Tokens storage own) {
        bytes32 place = keccak256("proofs.tokens");
        assembly {
            own.slot := place
        }
    }

    function mint(address to, uint256 id) external {
        emit Transfer(tokens().owners[id], to, id);
        tokens().owners[id] = to;
    }

    function ownerOf(uint256 id) external view returns (address owner) {
        owner = tokens().owners[id];
        require(owner != address(0), "no token");
    }
}

/// Names that expire: after that, `ownerOf` reverts without any log.
contract ExpiringNames is AnnouncedNft {
    mapping(uint256 id => uint256) public expiries;
    mapping(uint256 id => address) private owners;

    function register(address to, uint256 id, uint256 until) external {
        expiries[id] = until;
        emit Transfer(owners[id], to, id);
        owners[id] = to;
    }

    function ownerOf(uint256 id) external view returns (address) {
        require(expiries[id] > block.timestamp, "expired");
        return owners[id];
    }
}

/// Another contract has the owners.
contract OwnersElsewhere is AnnouncedNft {
    ExpiringNames private immutable names;

    constructor(ExpiringNames names_) {
        names = names_;
    }

    function announce(address to, uint256 id) external {
        emit Transfer(address(0), to, id);
    }

    function ownerOf(uint256 id) external view returns (address) {
        return names.ownerOf(id);
    }
}

/// The owner depends on the time of the block, its number and its parent's hash.
contract RotatingNft is AnnouncedNft {
    address[2] private owners;

    function mint(address one, address other, uint256 id) external {
        owners = [one, other];
        emit Transfer(address(0), one, id);
    }

    function ownerOf(uint256) external view returns (address) {
        uint256 turn = uint256(blockhash(block.number - 1)) ^ block.timestamp ^ block.number ^ block.prevrandao;
        return owners[turn % 2];
    }
}

/// An ERC-404: whole units of a coin are tokens, and `ownerOf` looks into both.
contract Fractional404 is AnnouncedNft {
    mapping(address => uint256) public balanceOf;
    mapping(uint256 id => address) private owners;

    function mint(address to, uint256 id) external {
        balanceOf[to] += 1e18;
        owners[id] = to;
        emit Transfer(address(0), to, id);
    }

    function ownerOf(uint256 id) external view returns (address owner) {
        owner = owners[id];
        require(owner != address(0) && balanceOf[owner] >= 1e18, "not whole");
    }
}

/// Names another owner than its logs.
contract LyingNft is AnnouncedNft {
    address private owner;

    function mint(address told, address owner_, uint256 id) external {
        owner = owner_;
        emit Transfer(address(0), told, id);
    }

    function ownerOf(uint256) external view returns (address) {
        return owner;
    }
}

/// Its `ownerOf` depends on what no proof is about, by token.
contract UnprovableNft is AnnouncedNft {
    address private immutable callee;

    constructor(address callee_) {
        callee = callee_;
    }

    function mint(address to, uint256 id) external {
        emit Transfer(address(0), to, id);
    }

    function ownerOf(uint256 id) external view returns (address) {
        if (id == 1) return address(uint160(uint256(blockhash(block.number - 2))));
        if (id == 2) return address(uint160(msg.sender.balance + 1));
        if (id == 3) while (gasleft() > 0) {}
        if (id == 4) return answer(callee);
        if (id == 5) return answer(address(0x64));
        if (id == 6) return address(uint160(address(2).balance + 1));
        return address(uint160(gasleft()));
    }

    function answer(address of_) private view returns (address) {
        (bool ok, ) = of_.staticcall{gas: 10000}("");
        return ok ? address(1) : address(2);
    }
}
