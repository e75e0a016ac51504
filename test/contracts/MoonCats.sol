// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// The events of MoonCats: a cat has a name of five bytes, and Transfer carries only a number of cats.
contract MoonCats {
    event CatRescued(address indexed to, bytes5 indexed catId);
    event Transfer(address indexed from, address indexed to, uint256 value);
    event CatAdopted(bytes5 indexed catId, uint256 price, address indexed from, address indexed to);
    event GenesisCatAdded(bytes5 catId);

    string public constant name = "MoonCats";
    string public constant symbol = unicode"🐱";
    uint8 public constant decimals = 0;
    uint256 public constant totalSupply = 25600;

    mapping(bytes5 => address) public catOwners;
    mapping(bytes5 => uint256) public offers;
    mapping(address => uint256) public balanceOf;

    function rescueCat(address to, bytes5 catId) external {
        require(catOwners[catId] == address(0), "rescued");
        catOwners[catId] = to;
        balanceOf[to]++;
        emit CatRescued(to, catId);
    }

    /// Gives a genesis cat to its first owner. It has no owner before.
    function adoptGenesisCat(address to, bytes5 catId) external {
        require(catOwners[catId] == address(0), "rescued");
        balanceOf[address(0)]++;
        emit GenesisCatAdded(catId);
        transferCat(catId, address(0), to, 1);
    }

    function giveCat(address to, bytes5 catId) external {
        require(catOwners[catId] == msg.sender, "not the owner");
        transferCat(catId, msg.sender, to, 0);
    }

    function makeAdoptionOffer(bytes5 catId, uint256 price) external {
        require(catOwners[catId] == msg.sender, "not the owner");
        offers[catId] = price;
    }

    function acceptAdoptionOffer(bytes5 catId) external payable {
        require(offers[catId] != 0 && msg.value >= offers[catId], "no such offer");
        transferCat(catId, catOwners[catId], msg.sender, msg.value);
    }

    function transferCat(bytes5 catId, address from, address to, uint256 price) private {
        catOwners[catId] = to;
        balanceOf[from]--;
        balanceOf[to]++;
        offers[catId] = 0;
        emit Transfer(from, to, 1);
        emit CatAdopted(catId, price, from, to);
    }
}
