// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {ERC721} from "@openzeppelin/contracts/token/ERC721/ERC721.sol";

/// An ERC-721 in which a token has its own URI, a common base, or no URI. For some tokens the call burns all gas.
/// On request it announces changes by the events of ERC-4906 and ERC-7496.
contract StoryNft is ERC721 {
    event MetadataUpdate(uint256 _tokenId);
    event BatchMetadataUpdate(uint256 _fromTokenId, uint256 _toTokenId);

    event TraitUpdated(bytes32 indexed traitKey, uint256 tokenId, bytes32 traitValue);
    event TraitUpdatedRange(bytes32 indexed traitKey, uint256 fromTokenId, uint256 toTokenId);
    event TraitUpdatedRangeUniformValue(
        bytes32 indexed traitKey, uint256 fromTokenId, uint256 toTokenId, bytes32 traitValue
    );
    event TraitUpdatedList(bytes32 indexed traitKey, uint256[] tokenIds);
    event TraitUpdatedListUniformValue(bytes32 indexed traitKey, uint256[] tokenIds, bytes32 traitValue);
    event TraitMetadataURIUpdated();

    string private base;
    string private suffix;
    mapping(uint256 => string) private uris;
    mapping(uint256 => bool) private burning;

    constructor(string memory name_, string memory symbol_) ERC721(name_, symbol_) {}

    function mintMany(address to, uint256 firstId, uint256 count) external {
        for (uint256 i = 0; i < count; i++) _mint(to, firstId + i);
    }

    /// Mints ids from `firstId` on, one for each URI.
    function mintStories(address to, uint256 firstId, string[] calldata stories) external {
        for (uint256 i = 0; i < stories.length; i++) {
            _mint(to, firstId + i);
            uris[firstId + i] = stories[i];
        }
    }

    function setStory(uint256 id, string calldata story) external {
        uris[id] = story;
    }

    function setBase(string calldata base_, string calldata suffix_) external {
        base = base_;
        suffix = suffix_;
    }

    function setBurning(uint256 id) external {
        burning[id] = true;
    }

    function announce(uint256 id) external {
        emit MetadataUpdate(id);
    }

    function announceBatch(uint256 from, uint256 to) external {
        emit BatchMetadataUpdate(from, to);
    }

    function announceTrait(uint256 id) external {
        emit TraitUpdated("level", id, bytes32(uint256(7)));
    }

    function announceTraits(uint256 from, uint256 to, bool areUniform) external {
        if (areUniform) emit TraitUpdatedRangeUniformValue("level", from, to, bytes32(uint256(7)));
        else emit TraitUpdatedRange("level", from, to);
    }

    function announceTraitsOf(uint256[] calldata ids, bool areUniform) external {
        if (areUniform) emit TraitUpdatedListUniformValue("level", ids, bytes32(uint256(7)));
        else emit TraitUpdatedList("level", ids);
    }

    function announceTraitData() external {
        emit TraitMetadataURIUpdated();
    }

    function tokenURI(uint256 id) public view override returns (string memory) {
        _requireOwned(id);
        if (burning[id]) {
            assembly {
                invalid()
            }
        }
        if (bytes(uris[id]).length > 0) return uris[id];
        require(bytes(base).length > 0, "no story");
        return string.concat(base, _digits(id), suffix);
    }

    function _digits(uint256 value) private pure returns (string memory) {
        if (value == 0) return "0";
        bytes memory text;
        for (uint256 rest = value; rest > 0; rest /= 10) {
            text = bytes.concat(bytes1(uint8(48 + (rest % 10))), text);
        }
        return string(text);
    }
}
