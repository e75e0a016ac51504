#!/bin/sh
# Removes from node_modules what production never reads: types, source maps, documents, sources and builds for other module
# systems. Keeps licences and notices. Usage: prune.sh <node_modules>
set -eu
cd "$1"

# Packages that have nothing but types, or a script that reports installations.
rm -rf @types undici-types @scarf
find . -type f \( -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' -o -name '*.map' -o -name '*.tsbuildinfo' \) -delete
# The package of libvips has its notice in its README.
find . -type f -iname '*.md' ! -iname 'license*' ! -iname 'notice*' ! -path './@img/*' -delete
find . -type d \( -name test -o -name tests -o -name __tests__ -o -name example -o -name examples -o -name docs -o -name benchmarks \) \
  -prune -exec rm -rf {} +

# Builds for browsers, sources, and CommonJS beside ES modules.
rm -rf ethers/dist ethers/src.ts ethers/lib.commonjs ethers/types lru-cache/dist/commonjs aes-js/lib.commonjs aes-js/src.ts
find swagger-ui-dist -type f ! -name swagger-ui.css ! -name swagger-ui-bundle.js ! -name package.json ! -iname 'license*' ! -name NOTICE -delete
find . -type d -empty -delete
