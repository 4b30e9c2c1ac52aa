// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// As much of ERC-20, ERC-5805 and ERC-6372 as the tests read; balances are votes. Not for use: anybody mints.
contract TestToken {
    uint256 public totalSupply;
    mapping(address => uint256) public balanceOf; // slot 1

    struct Checkpoint {
        uint48 since;
        uint208 votes;
    }
    mapping(address => Checkpoint[]) private history;
    bool public immutable countsSeconds;

    event Transfer(address indexed from, address indexed to, uint256 value);

    constructor(bool countsSeconds_) {
        countsSeconds = countsSeconds_;
    }

    function mint(address to, uint256 value) external {
        totalSupply += value;
        balanceOf[to] += value;
        history[to].push(Checkpoint(clock(), uint208(balanceOf[to])));
        emit Transfer(address(0), to, value);
    }

    function clock() public view returns (uint48) {
        return uint48(countsSeconds ? block.timestamp : block.number);
    }

    // solhint-disable-next-line func-name-mixedcase
    function CLOCK_MODE() external view returns (string memory) {
        return countsSeconds ? "mode=timestamp" : "mode=blocknumber&from=default";
    }

    function getPastVotes(address account, uint256 timepoint) external view returns (uint256 votes) {
        require(timepoint < clock(), "future lookup");
        Checkpoint[] storage list = history[account];
        for (uint256 i = 0; i < list.length && list[i].since <= timepoint; i++) votes = list[i].votes;
    }
}
