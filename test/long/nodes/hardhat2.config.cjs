/** Hardhat 2 as chain 1, its clock a day behind. @see development-nodes.ts */
module.exports = {
  solidity: "0.8.28",
  networks: {
    hardhat: {
      chainId: 1,
      blockGasLimit: 1_000_000_000,
      initialDate: process.env.GENESIS_TIME,
    },
  },
};
