/**
 * The platforms of a release, and Bun for each, from npm. `npm view <package>@<version> dist.integrity` prints the integrity; it
 * changes with the version of Bun that package.json pins.
 */
export interface Runtime {
  /** In the names of files: `linux-x64`. */
  readonly platform: string;
  readonly package: string;
  /** Of the package's tarball. */
  readonly integrity: string;
}

export const RUNTIMES: readonly Runtime[] = [
  {
    platform: "linux-x64",
    package: "@oven/bun-linux-x64",
    integrity: "sha512-IWX9BELoGHAUtMonkeSaNaZwXzRk+oDw6Mk+HBFXd3KHYIBNBsIGRupMZPcgNoDbJpLu6gAJjIoIVPZtt1aJ1g==",
  },
  {
    platform: "linux-x64-musl",
    package: "@oven/bun-linux-x64-musl",
    integrity: "sha512-10QoW/YfTgnURaGEaHpJCiXjLI2e5iTtfVDaA5JKcyUzaa1cq6cVUY9/Uq5XkYzvtRjHLRe9Oj/lTDIQcxy8HQ==",
  },
  {
    platform: "linux-arm64",
    package: "@oven/bun-linux-aarch64",
    integrity: "sha512-4BXmsSKnjOrlGWqZV4x/oWa7AVoR+B6lCXddMzOAXBIm3t50eslg9wb66gmtW1AamEQ1l1CDvmmruysEhqOWMg==",
  },
  {
    platform: "linux-arm64-musl",
    package: "@oven/bun-linux-aarch64-musl",
    integrity: "sha512-XCNc+WvvMAdNNb+OWTogpy+N9wm62fkVeEVLb6how0RZhW5LPi6c7BlkeVCuWps7XjEl2saFpHFa20/1E+PAHg==",
  },
  {
    platform: "darwin-arm64",
    package: "@oven/bun-darwin-aarch64",
    integrity: "sha512-4MIFXHmctH2EhAxLXm2/qxNtv17dFtLJylvaOCsrgq6KSqHTs6eW5YSrJjRbJxYUJaR901fsN8JfZOa+CsWpWQ==",
  },
];
