// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {StakeRegistry} from "./StakeRegistry.sol";

/// A stake registry in which a key answers for what it signs in certified runs: whoever shows two events of it that contradict each
/// other, as fault proofs of kind 7817 do, has a fixed share of its coin burned, and a part of that share paid out. It happens once to
/// a key, which has no stake from then on. Nobody owns this contract, and nobody has audited it.
contract SlashingRegistry is StakeRegistry {
    /// What a key says, by the kind of its event: 7813 twice, 7814, 7818 and 7810.
    enum Form {
        Prepare,
        Commit,
        Proposal,
        ViewChange,
        Manifest
    }

    /// A signed event, as far as it is not the same for all of its form. Texts are bytes of its NIP-01 serialization, escapes and all.
    struct Statement {
        Form form;
        uint64 createdAt;
        uint64 expiration;
        /// The `nonce` tag of NIP-13; without one both are 0.
        uint64 nonce;
        uint64 work;
        bytes32 run;
        uint64 round;
        uint64 attempt;
        uint64 inView;
        int64 justify;
        bytes32 parent;
        bytes32 ctx;
        /// Of the outcome; of a manifest the root of its payload.
        bytes32 digest;
        /// Members before `justify` of a vote, `ctx` of a proposal, `round` of a view-change vote, `parent` of a manifest.
        bytes inner;
        /// Members before `view` of a vote, before `round` of a proposal and of a manifest.
        bytes middle;
        /// Members after `run` of a manifest.
        bytes end;
        /// The signature: x coordinate and scalar.
        uint256 r;
        uint256 s;
    }

    uint256 private constant FIELD = 0xfffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f;
    uint256 private constant ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141;
    /// sha256("BIP0340/challenge")
    bytes32 private constant CHALLENGE = 0x7bb52d7a9fef58323eb1bf7a407db382d2f3f2d81bb1224f49fe518f6d48d37c;
    uint256 private constant ONES = 0x0101010101010101010101010101010101010101010101010101010101010101;

    /// Of all coin behind a key, what a fault costs.
    uint256 public immutable slashedPermille;
    /// Of that, what whoever proves it gets; the rest is burned. At most half, so that it never pays to prove a fault of one's own.
    uint256 public immutable reporterPermille;

    /// Coin on its way out and not withdrawn: it is at risk as long as it is here.
    mapping(bytes32 npub => uint256) public leaving;
    mapping(bytes32 npub => bool) public slashed;

    event Slashed(
        bytes32 indexed npub, address indexed reporter, uint256 burned, uint256 paid, bytes32 first, bytes32 second
    );

    error WrongShares();
    error IsSlashed();
    error NothingAtRisk();
    error NotSigned(bytes32 id);
    error NoFault();
    error BadText();

    constructor(uint256 unbondingSeconds_, uint256 slashedPermille_, uint256 reporterPermille_)
        StakeRegistry(unbondingSeconds_)
    {
        if (slashedPermille_ == 0 || slashedPermille_ > 1000 || reporterPermille_ > 500) revert WrongShares();
        slashedPermille = slashedPermille_;
        reporterPermille = reporterPermille_;
    }

    /// A key that was slashed takes no more stake.
    function bondFor(bytes32 npub) public payable override {
        if (slashed[npub]) revert IsSlashed();
        super.bondFor(npub);
    }

    /// Also begins the way out of what a fault left of a bond, which counts for nothing already.
    function requestExit(bytes32 npub) public override {
        uint256 amount = bonded[npub][msg.sender];
        leaving[npub] += amount;
        if (!slashed[npub]) return super.requestExit(npub);
        if (amount == 0) revert NothingBonded();
        bonded[npub][msg.sender] = 0;
        Exit storage exit = exits[npub][msg.sender];
        exit.amount += uint128(amount);
        exit.unlocksAt = uint128(block.timestamp + unbondingSeconds);
    }

    /// Pays what a fault left of it.
    function withdraw(bytes32 npub) public override {
        uint128 amount = exits[npub][msg.sender].amount;
        leaving[npub] -= amount;
        if (slashed[npub]) {
            exits[npub][msg.sender].amount = uint128(uint256(amount) * (1000 - slashedPermille) / 1000);
        }
        super.withdraw(npub);
    }

    /// Anybody shows that a key signed two statements of which no honest member signs both.
    function slash(bytes32 npub, Statement memory a, Statement memory b) external {
        if (slashed[npub]) revert IsSlashed();
        uint256 atRisk = total[npub] + leaving[npub];
        if (atRisk == 0) revert NothingAtRisk();
        (bytes32 first, bytes32 second) = prove(npub, a, b);
        slashed[npub] = true;
        if (total[npub] > 0) change(npub, 0);
        uint256 taken = atRisk * slashedPermille / 1000;
        uint256 paid = taken * reporterPermille / 1000;
        emit Slashed(npub, msg.sender, taken - paid, paid, first, second);
        send(address(0), taken - paid);
        send(msg.sender, paid);
    }

    /// The ids of two events, if both are signed by the key and contradict each other; reverts otherwise.
    function prove(bytes32 npub, Statement memory a, Statement memory b)
        public
        view
        returns (bytes32 first, bytes32 second)
    {
        bytes memory saidFirst = contentOf(a);
        bytes memory saidSecond = contentOf(b);
        if (keccak256(saidFirst) == keccak256(saidSecond) || !isFault(a, b)) revert NoFault();
        first = signedId(npub, a, saidFirst);
        second = signedId(npub, b, saidSecond);
    }

    function send(address to, uint256 amount) private {
        if (amount == 0) return;
        (bool sent,) = to.call{value: amount}("");
        if (!sent) revert NotSent();
    }

    // --- contradiction ---

    /// Whether two different contents are in one slot, or break a lock. A proposal is its author's prepare.
    function isFault(Statement memory a, Statement memory b) private pure returns (bool) {
        if (a.run != b.run || a.round != b.round || a.parent != b.parent) return false;
        if (a.form == Form.Manifest || b.form == Form.Manifest) return a.form == b.form;
        if (a.attempt != b.attempt) return false;
        if (a.form == Form.ViewChange || b.form == Form.ViewChange) return a.form == b.form;
        if (isBrokenLock(a, b) || isBrokenLock(b, a)) return true;
        bool isSameStep = (a.form == Form.Commit) == (b.form == Form.Commit);
        return isSameStep && a.inView == b.inView && (a.form == b.form || a.digest != b.digest);
    }

    /// It committed to one outcome, and prepared another in a later view that nothing since the commit justifies.
    function isBrokenLock(Statement memory a, Statement memory b) private pure returns (bool) {
        if (a.form != Form.Commit || b.form == Form.Commit || a.digest == b.digest) return false;
        return b.inView > a.inView && int256(b.justify) < int256(uint256(a.inView));
    }

    // --- serialization ---

    /// The content inside the serialization of its event: canonical JSON, whose quotes are escaped. What stands after `inner` is at the top of
    /// the object, because no brace may follow; so a member that counts here is the one that the protocol reads.
    function contentOf(Statement memory a) private pure returns (bytes memory) {
        if (hasBrace(a.middle) || hasBrace(a.end)) revert BadText();
        bytes memory parent = member("parent", a.parent);
        bytes memory place =
            abi.encodePacked('\\"round\\":', decimal(a.round), ',\\"run\\":\\"', hexOf(a.run), '\\",');
        if (a.form == Form.Manifest) {
            return abi.encodePacked("{", a.inner, parent, a.middle, place, a.end, "}");
        }
        bytes memory attempt = abi.encodePacked('{\\"attempt\\":', decimal(a.attempt), ",");
        if (a.form == Form.ViewChange) {
            return abi.encodePacked(attempt, parent, a.inner, place, '\\"type\\":\\"ballot\\"}');
        }
        bytes memory outcome = abi.encodePacked(member("ctx", a.ctx), member("digest", a.digest));
        bytes memory justify = abi.encodePacked('\\"justify\\":', signed(a.justify), ",");
        bytes memory last = abi.encodePacked('\\"view\\":', decimal(a.inView), "}");
        if (a.form == Form.Proposal) {
            return abi.encodePacked(attempt, a.inner, outcome, justify, parent, a.middle, place, last);
        }
        bytes memory step =
            a.form == Form.Commit ? bytes('\\"step\\":\\"commit\\",') : bytes('\\"step\\":\\"prepare\\",');
        return abi.encodePacked(attempt, outcome, a.inner, justify, parent, place, step, a.middle, last);
    }

    function member(string memory name, bytes32 value) private pure returns (bytes memory) {
        return abi.encodePacked('\\"', name, '\\":\\"', hexOf(value), '\\",');
    }

    /// The id of the event, which is SHA-256 of all of it, when the key signed it; reverts otherwise.
    function signedId(bytes32 npub, Statement memory a, bytes memory content) private view returns (bytes32 id) {
        bytes memory run = hexOf(a.run);
        bytes memory head = abi.encodePacked(
            '[0,"', hexOf(npub), '",', decimal(a.createdAt), ",", kindOf(a.form), ',[["t","nostrain"],["s","', run
        );
        bytes memory scope = abi.encodePacked('"],["s","', run, "/", decimal(a.round));
        bytes memory x =
            a.form == Form.ViewChange ? bytes("") : abi.encodePacked('"],["x","', hexOf(a.digest));
        bytes memory expiration = abi.encodePacked('"],["expiration","', decimal(a.expiration));
        bytes memory nonce = a.work == 0
            ? bytes("")
            : abi.encodePacked('"],["nonce","', decimal(a.nonce), '","', decimal(a.work));
        id = sha256(abi.encodePacked(head, scope, x, expiration, nonce, '"]],"', content, '"]'));
        if (!isSigned(uint256(npub), id, a.r, a.s)) revert NotSigned(id);
    }

    function kindOf(Form form) private pure returns (bytes memory) {
        if (form == Form.Manifest) return "7810";
        if (form == Form.ViewChange) return "7818";
        return form == Form.Proposal ? bytes("7814") : bytes("7813");
    }

    /// Whether a text has a curly brace: 32 bytes at a time, in which a byte is zero after the comparison.
    function hasBrace(bytes memory text) private pure returns (bool found) {
        for (uint256 from = 0; from < text.length; from += 32) {
            uint256 word;
            assembly ("memory-safe") {
                word := mload(add(add(text, 32), from))
            }
            if (text.length - from < 32) word >>= 8 * (32 - (text.length - from));
            if (hasZero(word ^ (ONES * 0x7b)) || hasZero(word ^ (ONES * 0x7d))) return true;
        }
    }

    function hasZero(uint256 word) private pure returns (bool) {
        unchecked {
            return (word - ONES) & ~word & (ONES << 7) != 0;
        }
    }

    function signed(int64 value) private pure returns (bytes memory) {
        if (value >= 0) return decimal(uint64(value));
        if (value != -1) revert BadText();
        return "-1";
    }

    function decimal(uint64 value) private pure returns (bytes memory text) {
        uint256 length = 1;
        for (uint64 rest = value / 10; rest > 0; rest /= 10) length++;
        text = new bytes(length);
        for (; length > 0; value /= 10) text[--length] = bytes1(uint8(48 + value % 10));
    }

    /// 64 lowercase hex digits.
    function hexOf(bytes32 value) private pure returns (bytes memory) {
        return abi.encodePacked(hexOf(uint256(value) >> 128), hexOf(uint256(value) & type(uint128).max));
    }

    /// 16 bytes: halves move apart until every nibble has a byte of its own, and all of them become digits at once.
    function hexOf(uint256 x) private pure returns (bytes32) {
        unchecked {
            x = (x | (x << 64)) & 0x0000000000000000ffffffffffffffff0000000000000000ffffffffffffffff;
            x = (x | (x << 32)) & 0x00000000ffffffff00000000ffffffff00000000ffffffff00000000ffffffff;
            x = (x | (x << 16)) & 0x0000ffff0000ffff0000ffff0000ffff0000ffff0000ffff0000ffff0000ffff;
            x = (x | (x << 8)) & 0x00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff;
            x = (x | (x << 4)) & (ONES * 0x0f);
            uint256 letters = ((x + ONES * 6) >> 4) & ONES;
            return bytes32(x + ONES * 48 + letters * 39);
        }
    }

    // --- signature ---

    /// BIP-340 through `ecrecover`, which gives the address of (s * R - h * G) / r for the point R with x = r: with the key for R and h and s
    /// chosen so, that is s * G - e * key, which must be the point of even y whose x the signature states.
    function isSigned(uint256 key, bytes32 id, uint256 r, uint256 s) private view returns (bool) {
        if (key == 0 || key >= ORDER || r == 0 || r >= FIELD || s == 0 || s >= ORDER) return false;
        uint256 e = uint256(sha256(abi.encodePacked(CHALLENGE, CHALLENGE, r, key, id))) % ORDER;
        uint256 factor = ORDER - mulmod(e, key, ORDER);
        (bool isPoint, uint256 y) = evenY(r);
        if (!isPoint || factor == ORDER) return false;
        bytes32 h = bytes32(ORDER - mulmod(s, key, ORDER));
        // 27: the key is the point of even y
        address found = ecrecover(h, 27, bytes32(key), bytes32(factor));
        return found != address(0) && found == address(uint160(uint256(keccak256(abi.encodePacked(r, y)))));
    }

    /// The even y of a point, where x is one of any.
    function evenY(uint256 x) private view returns (bool, uint256) {
        uint256 square = addmod(mulmod(mulmod(x, x, FIELD), x, FIELD), 7, FIELD);
        (bool done, bytes memory root) =
            address(5).staticcall(abi.encode(32, 32, 32, square, (FIELD + 1) / 4, FIELD));
        if (!done || root.length != 32) return (false, 0);
        uint256 y = abi.decode(root, (uint256));
        if (mulmod(y, y, FIELD) != square) return (false, 0);
        return (true, y % 2 == 0 ? y : FIELD - y);
    }
}
