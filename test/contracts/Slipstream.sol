// SPDX-License-Identifier: GPL-2.0-or-later
pragma solidity =0.7.6;

import "sphere-mezo-solidity-files/domains/aerodrome-slipstream/contracts/core/CLFactory.sol";
import "sphere-mezo-solidity-files/domains/aerodrome-slipstream/contracts/core/CLPool.sol";

/// Slipstream's pool and factory, unchanged.
contract SlipstreamPool is CLPool {}

contract SlipstreamFactory is CLFactory {
    constructor(address voter_, address legacy_, address implementation_) CLFactory(voter_, legacy_, implementation_) {}
}
