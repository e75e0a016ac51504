// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// A market of tokens older than the standards, with the events of CryptoPunks and its known fault in accepted bids.
contract Punks {
    struct Offer {
        bool open;
        address seller;
        uint256 minValue;
        address onlyTo;
    }

    struct Bid {
        bool open;
        address bidder;
        uint256 value;
    }

    event Assign(address indexed to, uint256 punkIndex);
    event Transfer(address indexed from, address indexed to, uint256 value);
    event PunkTransfer(address indexed from, address indexed to, uint256 punkIndex);
    event PunkOffered(uint256 indexed punkIndex, uint256 minValue, address indexed toAddress);
    event PunkBidEntered(uint256 indexed punkIndex, uint256 value, address indexed fromAddress);
    event PunkBidWithdrawn(uint256 indexed punkIndex, uint256 value, address indexed fromAddress);
    event PunkBought(uint256 indexed punkIndex, uint256 value, address indexed fromAddress, address indexed toAddress);
    event PunkNoLongerForSale(uint256 indexed punkIndex);

    string public constant name = "PUNKS";
    string public constant symbol = "PUNK";
    uint8 public constant decimals = 0;
    uint256 public constant totalSupply = 10000;

    mapping(uint256 => address) public punkIndexToAddress;
    mapping(address => uint256) public balanceOf;
    mapping(uint256 => Offer) public punksOfferedForSale;
    mapping(uint256 => Bid) public punkBids;
    mapping(address => uint256) public pendingWithdrawals;

    modifier exists(uint256 index) {
        require(index < totalSupply, "no such punk");
        _;
    }

    modifier owned(uint256 index) {
        require(punkIndexToAddress[index] == msg.sender, "not the owner");
        _;
    }

    /// First assignment. A later assignment may still replace the owner, as in the first days of CryptoPunks.
    function setInitialOwner(address to, uint256 index) external exists(index) {
        address previous = punkIndexToAddress[index];
        if (previous != address(0)) balanceOf[previous]--;
        balanceOf[to]++;
        punkIndexToAddress[index] = to;
        emit Assign(to, index);
    }

    function setInitialOwners(address to, uint256 firstIndex, uint256 count) external {
        for (uint256 i = firstIndex; i < firstIndex + count; i++) this.setInitialOwner(to, i);
    }

    function getPunk(uint256 index) external exists(index) {
        require(punkIndexToAddress[index] == address(0), "taken");
        punkIndexToAddress[index] = msg.sender;
        balanceOf[msg.sender]++;
        emit Assign(msg.sender, index);
    }

    function transferPunk(address to, uint256 index) external owned(index) {
        if (punksOfferedForSale[index].open) withdrawOffer(index);
        handOver(msg.sender, to, index);
        emit PunkTransfer(msg.sender, to, index);
        refundBidOf(to, index);
    }

    function offerPunkForSale(uint256 index, uint256 minValue) external owned(index) {
        punksOfferedForSale[index] = Offer(true, msg.sender, minValue, address(0));
        emit PunkOffered(index, minValue, address(0));
    }

    function punkNoLongerForSale(uint256 index) external owned(index) {
        withdrawOffer(index);
    }

    function buyPunk(uint256 index) external payable {
        Offer memory offer = punksOfferedForSale[index];
        require(offer.open && offer.seller == punkIndexToAddress[index], "not for sale");
        require(offer.onlyTo == address(0) || offer.onlyTo == msg.sender, "reserved");
        require(msg.value >= offer.minValue, "too little");
        handOver(offer.seller, msg.sender, index);
        withdrawOffer(index);
        pendingWithdrawals[offer.seller] += msg.value;
        emit PunkBought(index, msg.value, offer.seller, msg.sender);
        refundBidOf(msg.sender, index);
    }

    function enterBidForPunk(uint256 index) external payable exists(index) {
        Bid memory previous = punkBids[index];
        require(msg.value > previous.value, "too little");
        if (previous.open) pendingWithdrawals[previous.bidder] += previous.value;
        punkBids[index] = Bid(true, msg.sender, msg.value);
        emit PunkBidEntered(index, msg.value, msg.sender);
    }

    /// The fault: the bid is a reference into storage, and it is cleared before the event reads it. So PunkBought has
    /// the zero address and no value. Only the Transfer just before it names the buyer.
    function acceptBidForPunk(uint256 index, uint256 minPrice) external owned(index) {
        Bid storage bid = punkBids[index];
        require(bid.open && bid.value >= minPrice, "no such bid");
        handOver(msg.sender, bid.bidder, index);
        punksOfferedForSale[index] = Offer(false, bid.bidder, 0, address(0));
        pendingWithdrawals[msg.sender] += bid.value;
        delete punkBids[index];
        emit PunkBought(index, bid.value, msg.sender, bid.bidder);
    }

    function withdrawBidForPunk(uint256 index) external {
        Bid memory bid = punkBids[index];
        require(bid.bidder == msg.sender, "not your bid");
        delete punkBids[index];
        pendingWithdrawals[msg.sender] += bid.value;
        emit PunkBidWithdrawn(index, bid.value, msg.sender);
    }

    function handOver(address from, address to, uint256 index) private {
        punkIndexToAddress[index] = to;
        balanceOf[from]--;
        balanceOf[to]++;
        emit Transfer(from, to, 1);
    }

    function withdrawOffer(uint256 index) private {
        punksOfferedForSale[index] = Offer(false, msg.sender, 0, address(0));
        emit PunkNoLongerForSale(index);
    }

    function refundBidOf(address bidder, uint256 index) private {
        Bid memory bid = punkBids[index];
        if (bid.bidder != bidder) return;
        delete punkBids[index];
        pendingWithdrawals[bidder] += bid.value;
    }
}
