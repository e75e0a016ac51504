/** Hardhat 3 as chain 1, its clock a day behind. @see development-nodes.ts */
export default {
  networks: {
    node: {
      type: "edr-simulated",
      chainType: "l1",
      chainId: 1,
      blockGasLimit: 1_000_000_000,
      initialDate: process.env.GENESIS_TIME,
    },
  },
};
