// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// Native coin bonded to Nostr keys, by anybody for anybody. Every change is chained into one rolling hash, so that a reader who
/// replays the events and ends in the hash that the chain proves has left none out. Nobody owns this contract: there is no
/// upgrade, no pause, no fee and no slashing.
contract StakeRegistry {
    /// Slot 0: keccak256(abi.encode(hash before, sequence, npub, funder, block number, new total)), from zero.
    bytes32 public rollingHash;
    /// Slot 1: changes so far.
    uint256 public sequence;

    /// Stake that counts, by x-only public key.
    mapping(bytes32 npub => uint256) public total;
    mapping(bytes32 npub => mapping(address funder => uint256)) public bonded;

    struct Exit {
        uint128 amount;
        uint128 unlocksAt;
    }
    mapping(bytes32 npub => mapping(address funder => Exit)) public exits;

    uint256 public immutable unbondingSeconds;

    /// The block number is hashed too: whoever knows the hash of a later block knows the table of every earlier one.
    event Changed(
        uint256 indexed sequence, bytes32 indexed npub, address indexed funder, uint256 blockNumber, uint256 total
    );

    error NothingToBond();
    error NothingBonded();
    error NothingToWithdraw();
    error Locked(uint256 unlocksAt);
    error TooMuch();
    error NotSent();

    constructor(uint256 unbondingSeconds_) {
        unbondingSeconds = unbondingSeconds_;
    }

    /// Adds the value sent to the stake of a key. Whoever holds the key consents by joining a run; nothing here asks.
    function bondFor(bytes32 npub) public payable virtual {
        if (msg.value == 0 || npub == 0) revert NothingToBond();
        bonded[npub][msg.sender] += msg.value;
        change(npub, total[npub] + msg.value);
    }

    /// Takes all the caller bonded for a key out of its stake at once; the coin unlocks after the delay.
    function requestExit(bytes32 npub) public virtual {
        uint256 amount = bonded[npub][msg.sender];
        if (amount == 0) revert NothingBonded();
        bonded[npub][msg.sender] = 0;
        Exit storage exit = exits[npub][msg.sender];
        exit.amount += uint128(amount);
        exit.unlocksAt = uint128(block.timestamp + unbondingSeconds);
        change(npub, total[npub] - amount);
    }

    /// Sends what has unlocked to the caller, who funded it.
    function withdraw(bytes32 npub) public virtual {
        Exit memory exit = exits[npub][msg.sender];
        if (exit.amount == 0) revert NothingToWithdraw();
        if (block.timestamp < exit.unlocksAt) revert Locked(exit.unlocksAt);
        delete exits[npub][msg.sender];
        (bool sent,) = msg.sender.call{value: exit.amount}("");
        if (!sent) revert NotSent();
    }

    function change(bytes32 npub, uint256 newTotal) internal {
        if (newTotal > type(uint128).max) revert TooMuch();
        total[npub] = newTotal;
        sequence += 1;
        rollingHash = keccak256(abi.encode(rollingHash, sequence, npub, msg.sender, block.number, newTotal));
        emit Changed(sequence, npub, msg.sender, block.number, newTotal);
    }
}
