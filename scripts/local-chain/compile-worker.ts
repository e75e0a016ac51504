/** Compiles standard JSON input to standard JSON output. Loads each compiler once, for any number of inputs. */
declare const self: Worker;

interface Compiler {
  compile(input: string): string;
}

self.onmessage = async ({ data }: MessageEvent<{ compiler: string; input: string }>) => {
  const { default: solc } = (await import(data.compiler)) as { default: Compiler };
  self.postMessage(solc.compile(data.input));
};
