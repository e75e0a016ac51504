// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// Emits any event it is given, without state behind it, and answers calls with any bytes it is given.
/// It stands for contracts that lie, that are broken, or that are very busy.
contract Emitter {
    event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);
    event TransferSingle(
        address indexed operator, address indexed from, address indexed to, uint256 id, uint256 value
    );
    event TransferBatch(
        address indexed operator, address indexed from, address indexed to, uint256[] ids, uint256[] values
    );
    event ConsecutiveTransfer(
        uint256 indexed fromTokenId, uint256 toTokenId, address indexed fromAddress, address indexed toAddress
    );

    mapping(bytes4 => bool) public supportsInterface;
    mapping(bytes4 => bytes) private answers;

    function setInterface(bytes4 id, bool supported) external {
        supportsInterface[id] = supported;
    }

    /// Sets the bytes that answer any call to `selector`, unless a function here has it. Empty bytes: the call reverts.
    function setAnswer(bytes4 selector, bytes calldata answer) external {
        answers[selector] = answer;
    }

    fallback(bytes calldata) external returns (bytes memory answer) {
        answer = answers[msg.sig];
        require(answer.length != 0, "no answer");
    }

    /// Emits one ERC-721 Transfer for each of `count` ids.
    function emitTransfers(uint256 firstId, uint256 count, address from, address to) external {
        for (uint256 i = 0; i < count; i++) emit Transfer(from, to, firstId + i);
    }

    function emitSingle(address operator, address from, address to, uint256 id, uint256 value) external {
        emit TransferSingle(operator, from, to, id, value);
    }

    function emitBatch(
        address operator, address from, address to, uint256[] calldata ids, uint256[] calldata values
    ) external {
        emit TransferBatch(operator, from, to, ids, values);
    }

    function emitConsecutive(uint256 fromId, uint256 toId, address from, address to) external {
        emit ConsecutiveTransfer(fromId, toId, from, to);
    }

    function emitRaw(bytes32[] memory topics, bytes memory data) external {
        uint256 count = topics.length;
        require(count <= 4, "too many topics");
        assembly {
            let size := mload(data)
            let start := add(data, 32)
            let t := add(topics, 32)
            switch count
            case 0 { log0(start, size) }
            case 1 { log1(start, size, mload(t)) }
            case 2 { log2(start, size, mload(t), mload(add(t, 32))) }
            case 3 { log3(start, size, mload(t), mload(add(t, 32)), mload(add(t, 64))) }
            default { log4(start, size, mload(t), mload(add(t, 32)), mload(add(t, 64)), mload(add(t, 96))) }
        }
    }

    /// Emits many packed logs. Each is one byte with the number of topics, the topics of 32 bytes each, four bytes with
    /// the length of the data, and the data.
    function emitLogs(bytes calldata packed) external {
        assembly {
            let at := packed.offset
            let end := add(at, packed.length)
            let free := mload(0x40)
            for {} lt(at, end) {} {
                let count := byte(0, calldataload(at))
                let t := add(at, 1)
                at := add(t, mul(count, 32))
                let size := shr(224, calldataload(at))
                at := add(at, 4)
                calldatacopy(free, at, size)
                at := add(at, size)
                switch count
                case 0 { log0(free, size) }
                case 1 { log1(free, size, calldataload(t)) }
                case 2 { log2(free, size, calldataload(t), calldataload(add(t, 32))) }
                case 3 {
                    log3(free, size, calldataload(t), calldataload(add(t, 32)), calldataload(add(t, 64)))
                }
                case 4 {
                    log4(
                        free,
                        size,
                        calldataload(t),
                        calldataload(add(t, 32)),
                        calldataload(add(t, 64)),
                        calldataload(add(t, 96))
                    )
                }
                default { revert(0, 0) }
            }
        }
    }
}
