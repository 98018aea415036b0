"""Where the weights of a model come from."""

from typing import Annotated, Literal

from pydantic import Field

from components.settings.base import BucketName, Settings, form

S3Prefix = Annotated[
    str, form(r"^[A-Za-z0-9][A-Za-z0-9._/-]*$", "a folder in a bucket like llama-3.1-8b-instruct")
]
S3Revision = Annotated[
    str, form(r"^[A-Za-z0-9][A-Za-z0-9._-]*$", "the name of one folder like 2026-11-01 or a commit")
]
Repository = Annotated[
    str,
    form(r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$", "a repository of Hugging Face like Qwen/Qwen2.5-7B-Instruct"),
]
Commit = Annotated[
    str, form(r"^[0-9a-f]{40}$", "a full commit of 40 hexadecimal digits; branches and tags move")
]
Folder = Annotated[str, form(r"^/[A-Za-z0-9._/-]+$", "an absolute folder like /opt/models/tiny")]


class HubSource(Settings):
    """Weights on Hugging Face at one commit."""

    kind: Literal["huggingFace"] = "huggingFace"
    repository: Repository = Field(description="Owner and name on Hugging Face.")
    revision: Commit = Field(description="Commit, not a branch: branches move.")
    gated: bool = Field(default=False, description="Needs the secret llm-platform:huggingFaceToken.")


class S3Source(Settings):
    """Weights in a bucket. Without `bucket` it is the stack's own bucket."""

    kind: Literal["s3"]
    prefix: S3Prefix = Field(description="Folder of the model.")
    revision: S3Revision = Field(description="Folder below the prefix; never overwritten.")
    bucket: BucketName | None = Field(default=None, description="Unset: the stack's own bucket.")
    download_from: HubSource | None = Field(
        default=None,
        description="Where the download job takes the weights from when they are not in the bucket yet.",
    )


class PathSource(Settings):
    """Weights in a folder that the image or the node already has."""

    kind: Literal["path"]
    path: Folder = Field(description="Folder in the container.")


Source = Annotated[S3Source | HubSource | PathSource, Field(discriminator="kind")]
