/** Ganache as chain 1, its clock a day behind. Its command line refuses port 0, its server takes it. */
const { server } = require("ganache");

const node = server({
  chain: { chainId: 1, time: process.env.GENESIS_TIME },
  miner: { blockGasLimit: 1_000_000_000 },
  wallet: { defaultBalance: 1_000_000 },
  logging: { quiet: true },
});
node.listen(0, "127.0.0.1").then(() => console.log(`Started at http://127.0.0.1:${node.address().port}/`));
